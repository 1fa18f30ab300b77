// RedisCollector as a script, for a source `jvm` with `language: groovy`, an `interval`,
// `allow: [redis.clients.jedis.*, redis.clients.jedis.resps.*]`, and the jars of Jedis:
// jedis, commons-pool2, slf4j-api, gson and json.

import java.time.Instant
import redis.clients.jedis.HostAndPort
import redis.clients.jedis.Jedis

/** Returns the text as a number if it is one. */
def value(String text) {
    if (text ==~ /-?\d{1,18}/) {
        return text.toLong()
    }
    text ==~ /-?\d+\.\d+/ ? text.toDouble() : text
}

/** Parses what INFO returns: lines of names and values, below the names of sections. */
Map<String, Map<String, Object>> sections(String info) {
    Map<String, Map<String, Object>> sections = [:]
    Map<String, Object> current = [:]
    info.split(/\r?\n/).each { line ->
        int colon = line.indexOf(':')
        if (line.startsWith('# ')) {
            current = [:]
            sections[line.substring(2).toLowerCase()] = current
        } else if (colon > 0) {
            current[line.substring(0, colon)] = value(line.substring(colon + 1))
        }
    }
    sections
}

def redis = new Jedis(HostAndPort.from((options.address ?: '127.0.0.1:6379') as String))
try {
    if (options.password) {
        redis.auth(options.password as String)
    }
    def sections = sections(redis.info())
    sections.each { name, fields -> events.add(name, fields) }

    def run = sections.server?.run_id
    if (state.run_id != run) {
        // Another process: its ids start again.
        state.last_id = -1L
        state.run_id = run
    }
    long last = state.last_id as long
    redis.slowlogGet((options.slow_log ?: 128) as long).findAll { it.id > last }.sort { it.id }.each { entry ->
        events.add(entry.args.join(' '), [
            timestamp: Instant.ofEpochSecond(entry.timeStamp),
            slow_id: entry.id,
            duration_us: entry.executionTime,
            client: "${entry.clientIpPort}",
        ])
        state.last_id = entry.id
    }
} finally {
    redis.close()
}
