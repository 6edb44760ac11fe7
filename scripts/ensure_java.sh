#!/usr/bin/env bash
# Makes sure there are Java 17-21 and Maven for real Kafka and Spark: uses the system's, else installs them with apt if
# that is allowed, else prints a warning that they are missing. Always exits 0; the last line on stdout, for scripts, is
# "java: PATH" or "no java".
set -euo pipefail
. "$(dirname "$0")/lib.sh"

no_java() {
  say "================================================================================"
  say "NO JAVA: real Kafka and Spark will not run, everything else will."
  say "To have them: install a JDK 17 or 21 and Maven (Debian: apt-get install openjdk-17-jdk-headless maven)."
  say "================================================================================"
  echo "no java"
  exit 0
}

install_java() {
  say "installing Java 17 with apt, for a real Kafka and Spark (about a minute)"
  apt_install openjdk-17-jre-headless || apt_install openjdk-21-jre-headless
}

find_java >/dev/null || install_java || no_java
java="$(find_java)" || no_java
if ! command -v mvn >/dev/null 2>&1; then
  say "installing Maven with apt, which fetches the jars of Kafka and Spark (half a minute)"
  apt_install maven || say "NO MAVEN: jars cannot be fetched; install it (Debian: apt-get install maven) and try again"
fi
echo "java: $java"
