"""`make pipeline-demo`: the flights go through the whole pipeline, and an audit checks that none was lost."""
