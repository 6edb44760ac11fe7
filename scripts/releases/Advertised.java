import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Optional;

/**
 * Prints what a broker of one Kafka release advertises to clients, as its own classes say.
 *
 * <p>Run with that release's kafka-clients on the class path, and kafka-server-common if there is one. The names of
 * these classes' methods differ between releases, so they are called by reflection. Argument: ZK_BROKER, or BROKER for a
 * release whose brokers run without ZooKeeper. Lines: {@code api NUMBER NAME LOWEST HIGHEST} and {@code feature NAME LOWEST
 * HIGHEST DEFAULT}.
 */
public final class Advertised {
    public static void main(String[] args) throws Exception {
        Class<?> keys = Class.forName("org.apache.kafka.common.protocol.ApiKeys");
        for (Object key : apis(keys, args[0])) {
            short[] range = range(keys, key, args[0]);
            if (range != null) {
                System.out.println("api " + keys.getField("id").get(key) + " " + ((Enum<?>) key).name() + " " + range[0] + " " + range[1]);
            }
        }
        if (args[0].equals("BROKER")) {
            features();
        }
    }

    private static Collection<?> apis(Class<?> keys, String listener) throws Exception {
        Method byListener = find(keys, "apisForListener", 1);
        if (byListener != null) {
            return (Collection<?>) byListener.invoke(null, listener(byListener.getParameterTypes()[0], listener));
        }
        Method enabled = find(keys, "enabledApis", 0);
        return enabled == null ? List.of(keys.getEnumConstants()) : (Collection<?>) enabled.invoke(null);
    }

    /** The versions without a latest one that is unstable; null if there are none. */
    private static short[] range(Class<?> keys, Object key, String listener) throws Exception {
        Method forResponse = find(keys, "toApiVersionForApiResponse", 2);
        Method stable = find(keys, "toApiVersion", 1);
        if (forResponse == null && stable == null) {
            return new short[] {number(call(key, "oldestVersion")), number(call(key, "latestVersion"))};
        }
        Object found = forResponse == null
            ? stable.invoke(key, false)
            : forResponse.invoke(key, false, listener(forResponse.getParameterTypes()[1], listener));
        Object version = ((Optional<?>) found).orElse(null);
        return version == null
            ? null
            : new short[] {number(call(version, "minVersion")), number(call(version, "maxVersion"))};
    }

    private static void features() throws Exception {
        Class<?> metadata = Class.forName("org.apache.kafka.server.common.MetadataVersion");
        Object lowest = constant(metadata, "MINIMUM_VERSION", "MINIMUM_KRAFT_VERSION");
        Object production = constant(metadata, "LATEST_PRODUCTION");
        Object highest = production == null ? metadata.getMethod("latest").invoke(null) : production;
        short level = number(call(highest, "featureLevel"));
        System.out.println("feature metadata.version " + call(lowest, "featureLevel") + " " + level + " " + level);
        for (Object feature : others()) {
            Method level0 = find(feature.getClass(), "defaultLevel", 1);
            Method value = level0 == null ? find(feature.getClass(), "defaultValue", 1) : level0;
            Object from = find(feature.getClass(), "minimumProduction", 0) == null ? 0 : call(feature, "minimumProduction");
            System.out.println("feature " + call(feature, "featureName") + " " + from + " "
                + call(feature, "latestProduction") + " " + value.invoke(feature, highest));
        }
    }

    private static Collection<?> others() throws Exception {
        for (String name : new String[] {"Feature", "Features"}) {
            try {
                Class<?> features = Class.forName("org.apache.kafka.server.common." + name);
                Object production = constant(features, "PRODUCTION_FEATURES");
                return production == null ? new ArrayList<>() : (Collection<?>) production;
            } catch (ClassNotFoundException absent) {
                continue;
            }
        }
        return new ArrayList<>();
    }

    private static Object constant(Class<?> type, String... names) throws Exception {
        for (String name : names) {
            for (Field field : type.getFields()) {
                if (field.getName().equals(name)) {
                    return field.get(null);
                }
            }
        }
        return null;
    }

    private static Method find(Class<?> type, String name, int parameters) {
        for (Method method : type.getMethods()) {
            if (method.getName().equals(name) && method.getParameterCount() == parameters) {
                return method;
            }
        }
        return null;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object listener(Class<?> type, String name) {
        return Enum.valueOf((Class) type, name);
    }

    private static Object call(Object on, String name) throws Exception {
        Method method = on.getClass().getMethod(name);
        method.setAccessible(true);
        return method.invoke(on);
    }

    private static short number(Object value) {
        return ((Number) value).shortValue();
    }
}
