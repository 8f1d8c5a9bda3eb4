#include "sql.h"

#include <assert.h>

#include "own.h"

#define ALLOW_COLUMNS                                                   \
	"allow_templates, allow_levels, allow_networks, allow_memory, " \
	"allow_cpu_milli, allow_pids, allow_disk, allow_timeout_ms, "   \
	"allow_sessions, allow_creates"

#define KEY_COLUMNS                                                                      \
	"id, tenant, name, hash, prefix, scopes, created_ms, expires_ms, last_used_ms, " \
	"revoked_ms, " ALLOW_COLUMNS

/* Cannot be used any more; ?2 is now. */
#define KEY_DEAD "(revoked_ms > 0 OR (expires_ms > 0 AND expires_ms <= ?2))"

#define TENANT_COLUMNS                                                                \
	"id, name, operator, disabled, created_ms, max_sessions, create_rate_milli, " \
	"create_burst, queue_length, queue_ms, max_memory, max_storage, max_pids, "   \
	"max_stored, " ALLOW_COLUMNS

/* In the order in which store_session.c reads and writes them. */
#define SESSION_COLUMNS                                                                      \
	"id, tenant, template, template_id, profile, level, created_ms, memory_bytes, "      \
	"cpu_millis, pids, "                                                                 \
	"disk_bytes, inodes, nofile, output_bytes, env, mounts, state, reason, started_ms, " \
	"ended_ms, deadline_ms, paused_since_ms, paused_total_ms, boot_id, pid, detail, "    \
	"cold, image, image_bytes, guest_origin, "                                           \
	"timeout_ms, idle_ms, on_timeout, on_idle, metadata, rules, network, client, "       \
	"policy, secrets, used_cpu_us, used_memory_peak, used_disk, used_bytes_out, "        \
	"net_bytes_in, net_bytes_out, net_requests, size, keep_diff, diff_bytes, diff_why, " \
	"creator_key, storage, read_only, read_bps, write_bps, keep_ms, ports"

/* What a filter needs, all of it in the index: no row is read until it is wanted. */
#define SESSION_LOOK                                                           \
	"SELECT rowid, created_ms, id, state, ended_ms, template FROM session" \
	" INDEXED BY session_look WHERE tenant = ?1 AND (created_ms, id) "

#define EXECUTION_LOOK                                                 \
	"SELECT rowid, created_ms, id, state, ended_ms FROM execution" \
	" INDEXED BY execution_look WHERE session = ?1 AND (created_ms, id) "

#define ACTOR_COLUMNS "actor_interface, actor_key, actor_request"

#define EXECUTION_COLUMNS                                                                    \
	"id, session, tenant, kind, command_hash, command, cwd, user, tty, created_ms, "     \
	"timeout_ms, handle, state, started_ms, ended_ms, exit_code, signal, limit_hit, "    \
	"timed_out, error_code, error, out_bytes, err_bytes, log_bytes, truncated, cpu_us, " \
	"output_open, mark, client, result_bytes, output_limit, size, " ACTOR_COLUMNS        \
	", secrets, "                                                                        \
	"language, context"

/* What execution_kept is an index of: logs that no process writes to any more. */
#define EXECUTION_KEPT                                                                      \
	" FROM execution INDEXED BY execution_kept WHERE log_bytes > 0 AND output_open = 0" \
	" AND ended_ms > 0 AND session = ?"

#define EVENT_COLUMNS "seq, tenant, session, execution, time_ms, type, data, " ACTOR_COLUMNS

/* As STORE_NET_WEIGHT(). */
#define NET_WEIGHT "1 + length(CAST(data AS BLOB)) / 1024"
#define NET_COLUMNS "seq, tenant, session, time_ms, kind, allowed, name, data, execution"

/* Of a row and a record that is added to it: the details of the one that decides, and the files of
 * either, an object of names and digests. */
#define PACKAGE_DATA "CASE WHEN excluded.result >= result THEN excluded.data ELSE data END"
#define PACKAGE_FILES(of) "coalesce(json_extract(" of ", '$.files'), '{}')"

/* 2^53: sums of what cordon-egress says stay below it, since a sum that overflows is an error. */
#define NUMBER_MAX "9007199254740992"

#define PACKAGE_COLUMNS                                                                \
	"seq, tenant, session, ecosystem, registry, name, version, result, attempts, " \
	"downloads, refusals, bytes, first_ms, last_ms, execution, data"

#define SECRET_COLUMNS                                                          \
	"id, tenant, name, version, created_ms, updated_ms, expires_ms, ways, " \
	"metadata, hosts, methods, paths, places, box"

#define TEMPLATE_COLUMNS                                                                     \
	"id, tenant, name, version, current, kind, level, created_ms, layers, mounts, env, " \
	"user, workdir, start_command, ready_command, source, template_id, public, bytes, "  \
	"provenance, offered_command, cpu_millis, memory_bytes, expires_ms, start_restart, " \
	"interpreter, memory_profile, memory_read_only"

#define LAYER_COLUMNS "id, tenant, kind, bytes, entries, created_ms, state, digest, origin"
/* Versions of templates that use a layer as an image of guests (STORE_LAYER_GUEST_OF_TEMPLATE);
 * with an end: those of which sessions can be made. */
#define LAYER_VERSIONS                                                         \
	"EXISTS (SELECT 1 FROM layer_use JOIN template ON template.id = owner" \
	" WHERE layer = layer.id AND owner_kind = 5"
#define LAYER_ROW                                                                                  \
	LAYER_COLUMNS ", (SELECT count(*) FROM layer_use WHERE layer = layer.id), " LAYER_VERSIONS \
		      ") AND NOT " LAYER_VERSIONS " AND (current OR template.id IN"                \
		      " (SELECT version FROM template_tag)))"

#define VOLUME_COLUMNS "id, tenant, name, kind, state, bytes, created_ms, expires_ms, generation"

/* Live sessions that mount a volume. */
#define VOLUME_USES                                                                         \
	" FROM volume_use JOIN session ON session.id = volume_use.session AND ended_ms = 0" \
	" WHERE volume_use.volume = "
/* Without sessions that are stopping (STORE_SESSION_STOPPING): these only end. */
#define VOLUME_HOLDERS                                                                      \
	" FROM volume_use JOIN session ON session.id = volume_use.session AND ended_ms = 0" \
	" AND session.state < 5 WHERE volume_use.volume = "

#define BUILD_COLUMNS                                                                         \
	"id, tenant, template_id, name, status, step, cpu_millis, memory_bytes, created_ms, " \
	"updated_ms, finished_ms, version, tags, reason, log_bytes"
#define GONE "INSERT OR IGNORE INTO build_gone (kind, tenant, id) "
#define CACHE_SHARES "SELECT tenant, sum(bytes), count(*) FROM build_cache GROUP BY tenant"
#define CACHE_COLUMNS "tenant, key, layer, bytes, used_ms, user, workdir, env"
#define UPLOAD_COLUMNS "tenant, template_id, hash, digest, file, bytes, used_ms"
/* Builds that have ended, whose version does not exist, and that are not among the newest. */
#define OLD_BUILDS                                                       \
	"SELECT id FROM build WHERE template_id = ? AND finished_ms > 0" \
	" AND version NOT IN (SELECT id FROM template) AND id NOT IN"    \
	" (SELECT id FROM build WHERE template_id = ? ORDER BY created_ms DESC LIMIT ?)"

#define Q5 "?, ?, ?, ?, ?"

/* clang-format off */
/* The names of the tenant ?1 that have builds: one step in the index for each name, however many
 * builds it has. */
#define BUILD_NAMES                                                                     \
	"WITH RECURSIVE names(n) AS (SELECT min(name) FROM build WHERE tenant = ?1"     \
	" UNION ALL SELECT (SELECT min(name) FROM build WHERE tenant = ?1 AND name > n)" \
	" FROM names WHERE n IS NOT NULL) "
/* The newest build of each. */
#define BUILD_NEWEST                                                            \
	BUILD_NAMES "SELECT " BUILD_COLUMNS " FROM names JOIN build ON id ="     \
		    " (SELECT id FROM build WHERE tenant = ?1 AND name = n"      \
		    " ORDER BY created_ms DESC, id LIMIT 1) WHERE n IS NOT NULL"

const char *const sql_text[] = {
	[SQL_BEGIN] = "BEGIN IMMEDIATE",
	[SQL_COMMIT] = "COMMIT",
	[SQL_ROLLBACK] = "ROLLBACK",

	[SQL_PAGES] = "PRAGMA page_count",
	[SQL_FREE_PAGES] = "PRAGMA freelist_count",

	[SQL_META_SET] = "INSERT INTO meta (key, value) VALUES (?, ?)"
		" ON CONFLICT (key) DO UPDATE SET value = excluded.value",
	[SQL_META_DELETE] = "DELETE FROM meta WHERE key = ?",
	[SQL_META_GET] = "SELECT value FROM meta WHERE key = ?",

	[SQL_TENANT_INSERT] = "INSERT INTO tenant (" TENANT_COLUMNS ") VALUES ("
		Q5 ", " Q5 ", " Q5 ", " Q5 ", ?, ?, ?, ?)",
	[SQL_TENANT_UPDATE] = "UPDATE tenant SET name = ?, operator = ?, disabled = ?, max_sessions = ?,"
		" create_rate_milli = ?, create_burst = ?, queue_length = ?, queue_ms = ?,"
		" max_memory = ?, max_storage = ?, max_pids = ?, max_stored = ?, allow_templates = ?, allow_levels = ?,"
		" allow_networks = ?, allow_memory = ?, allow_cpu_milli = ?, allow_pids = ?,"
		" allow_disk = ?, allow_timeout_ms = ?, allow_sessions = ?, allow_creates = ? WHERE id = ?",
	[SQL_TENANT_EACH] = "SELECT " TENANT_COLUMNS " FROM tenant ORDER BY name",
	[SQL_TENANT_POLICY] = "SELECT policy FROM tenant WHERE id = ?",
	[SQL_TENANT_SET_POLICY] = "UPDATE tenant SET policy = ? WHERE id = ?",

	[SQL_KEY_INSERT] = "INSERT INTO key (" KEY_COLUMNS ") VALUES (" Q5 ", " Q5 ", "
		Q5 ", " Q5 ")",
	[SQL_KEY_GET] = "SELECT " KEY_COLUMNS " FROM key WHERE id = ?",
	[SQL_KEY_BY_HASH] = "SELECT " KEY_COLUMNS " FROM key WHERE hash = ?",
	[SQL_KEY_TOUCH] = "UPDATE key SET last_used_ms = max(last_used_ms, ?) WHERE id = ?",
	[SQL_KEY_REVOKE] = "UPDATE key SET revoked_ms ="
		" CASE revoked_ms WHEN 0 THEN ? ELSE revoked_ms END WHERE id = ?",
	[SQL_KEY_REVOKE_ALL] = "UPDATE key SET revoked_ms = ? WHERE tenant = ? AND revoked_ms = 0",
	[SQL_KEY_LIST] = "SELECT " KEY_COLUMNS " FROM key WHERE tenant = ?"
		" AND (created_ms, id) > (?, ?) ORDER BY created_ms, id LIMIT ?",
	[SQL_KEY_EXPIRING] = "SELECT " KEY_COLUMNS " FROM key WHERE expires_ms > 0 AND revoked_ms = 0"
		" AND (expires_ms, id) > (?, ?) ORDER BY expires_ms, id LIMIT ?",
	[SQL_KEY_COUNT] = "SELECT count(*) FROM key WHERE tenant = ?1 AND NOT " KEY_DEAD,
	[SQL_KEY_PRUNE] = "DELETE FROM key WHERE id IN (SELECT id FROM key WHERE tenant = ?1 AND " KEY_DEAD
		" ORDER BY created_ms DESC, id DESC LIMIT -1 OFFSET ?3)",

	[SQL_SESSION_INSERT] = "INSERT INTO session (" SESSION_COLUMNS ") VALUES ("
		Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5
		", ?, ?, ?, ?, ?, ?, ?, ?)",
	[SQL_SESSION_STATE] = "UPDATE session SET state = ?, reason = ?, started_ms = ?, ended_ms = ?,"
		" deadline_ms = ?, paused_since_ms = ?, paused_total_ms = ?, boot_id = ?, pid = ?,"
		" detail = ?, cold = ?, image = ?, image_bytes = ?, guest_origin = ? WHERE id = ?",
	[SQL_SESSION_SETTINGS] = "UPDATE session SET timeout_ms = ?, idle_ms = ?, on_timeout = ?,"
		" on_idle = ?, metadata = ?, rules = ?, network = ?, client = ?, policy = ?,"
		" secrets = ?, size = ? WHERE id = ?",
	[SQL_SESSION_USAGE] = "UPDATE session SET used_cpu_us = ?, used_memory_peak = ?,"
		" used_disk = ?, used_bytes_out = ?, net_bytes_in = ?, net_bytes_out = ?,"
		" net_requests = ? WHERE id = ?",
	[SQL_SESSION_DIFF] = "UPDATE session SET keep_diff = ?, diff_bytes = ?, diff_why = ? WHERE id = ?",
	[SQL_SESSION_PORTS] = "UPDATE session SET ports = ? WHERE id = ?",
	[SQL_SESSION_DIFFS_BY_TENANT] = "SELECT tenant, sum(diff_bytes) FROM session"
		" INDEXED BY session_diff WHERE diff_bytes > 0 GROUP BY tenant",
	[SQL_SESSION_GET] = "SELECT " SESSION_COLUMNS " FROM session WHERE id = ?",
	[SQL_SESSION_ROW] = "SELECT " SESSION_COLUMNS " FROM session WHERE rowid = ?",
	[SQL_SESSION_LOOK_UP] = SESSION_LOOK "> (?2, ?3) ORDER BY created_ms, id LIMIT ?4",
	[SQL_SESSION_LOOK_DOWN] = SESSION_LOOK "< (?2, ?3) ORDER BY created_ms DESC, id DESC LIMIT ?4",
	/* by name: otherwise the planner scans all sessions instead of sorting a few */
	[SQL_SESSION_LIVE] = "SELECT " SESSION_COLUMNS " FROM session INDEXED BY session_retire"
		" WHERE ended_ms = 0"
		" ORDER BY created_ms, id",
	[SQL_SESSION_NEXT_ENDED] = "SELECT ended_ms, id FROM session INDEXED BY session_retire"
		" WHERE (ended_ms, id) > (?, ?) AND ended_ms < ?"
		" ORDER BY ended_ms, id LIMIT 1",
	[SQL_SESSION_SIZE] = "SELECT tenant, size FROM session WHERE id = ?",
	[SQL_SESSION_DELETE] = "DELETE FROM session WHERE id = ?",

	[SQL_EXECUTION_INSERT] = "INSERT INTO execution (" EXECUTION_COLUMNS ") VALUES ("
		Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", ?, ?, ?)",
	[SQL_EXECUTION_UPDATE] = "UPDATE execution SET handle = ?, state = ?, started_ms = ?,"
		" ended_ms = ?, exit_code = ?, signal = ?, limit_hit = ?, timed_out = ?,"
		" error_code = ?, error = ?, out_bytes = ?, err_bytes = ?, log_bytes = ?,"
		" truncated = ?, cpu_us = ?, output_open = ?, mark = ?, client = ?, result_bytes = ?"
		" WHERE id = ?",
	[SQL_EXECUTION_GET] = "SELECT " EXECUTION_COLUMNS " FROM execution WHERE id = ?",
	[SQL_EXECUTION_ROW] = "SELECT " EXECUTION_COLUMNS " FROM execution WHERE rowid = ?",
	[SQL_EXECUTION_LOOK_UP] = EXECUTION_LOOK "> (?2, ?3) ORDER BY created_ms, id LIMIT ?4",
	[SQL_EXECUTION_LOOK_DOWN] = EXECUTION_LOOK
		"< (?2, ?3) ORDER BY created_ms DESC, id DESC LIMIT ?4",
	[SQL_EXECUTION_LIVE] = "SELECT " EXECUTION_COLUMNS " FROM execution WHERE ended_ms = 0"
		" ORDER BY created_ms, id",
	[SQL_EXECUTION_LIVE_OF_SESSION] = "SELECT " EXECUTION_COLUMNS " FROM execution"
		" INDEXED BY execution_live WHERE ended_ms = 0 AND session = ? ORDER BY created_ms, id",
	[SQL_EXECUTION_OPEN_OF_SESSION] = "SELECT " EXECUTION_COLUMNS " FROM execution"
		" INDEXED BY execution_open WHERE output_open = 1 AND ended_ms > 0 AND session = ?"
		" ORDER BY created_ms, id",
	[SQL_EXECUTION_COUNT] = "SELECT count(*), coalesce(sum(size), 0) FROM execution"
		" INDEXED BY execution_look WHERE session = ?",
	[SQL_EXECUTION_OLDEST] = "SELECT id, tenant, size FROM execution"
		" INDEXED BY execution_look WHERE session = ? ORDER BY created_ms, id LIMIT ?",
	[SQL_EXECUTION_DELETE] = "DELETE FROM execution WHERE rowid IN (SELECT rowid FROM execution"
		" INDEXED BY execution_look WHERE session = ? ORDER BY created_ms, id LIMIT ?)",
	[SQL_EXECUTION_BY_MARK] = "SELECT id FROM execution INDEXED BY execution_mark"
		" WHERE mark > 0 AND session = ? AND mark = ? ORDER BY created_ms DESC LIMIT 1",
	[SQL_EXECUTION_SECRETS] = "SELECT secrets FROM execution INDEXED BY execution_secrets"
		" WHERE secrets <> '' AND session = ?",
	[SQL_EXECUTION_INTERPRETER] = "SELECT 1 FROM execution INDEXED BY execution_interpreter"
		" WHERE kind = 3 AND session = ? LIMIT 1",
	[SQL_EXECUTION_KEPT] = "SELECT id, log_bytes" EXECUTION_KEPT " ORDER BY ended_ms, id LIMIT ?",
	[SQL_EXECUTION_KEPT_BYTES] = "SELECT coalesce(sum(log_bytes), 0)" EXECUTION_KEPT,
	[SQL_EXECUTION_KEPT_BY_TENANT] = "SELECT tenant, sum(log_bytes) FROM execution"
		" WHERE log_bytes > 0 AND output_open = 0 AND ended_ms > 0 GROUP BY tenant",
	[SQL_EXECUTION_LOG_REMOVED] = "UPDATE execution SET log_bytes = 0, truncated = 1 WHERE id = ?",

	[SQL_EVENT_APPEND] = "INSERT INTO event (tenant, session, execution, time_ms, type, data,"
		" " ACTOR_COLUMNS ") VALUES (" Q5 ", ?, ?, ?, ?)",
	[SQL_EVENT_LIST] = "SELECT " EVENT_COLUMNS " FROM event WHERE seq > ?1 ORDER BY seq LIMIT ?2",
	[SQL_EVENT_LIST_TENANT] = "SELECT " EVENT_COLUMNS " FROM event"
		" WHERE seq > ?1 AND tenant = ?3 ORDER BY seq LIMIT ?2",
	/* with its tenant, too, if there is one: an index can serve only one of them */
	[SQL_EVENT_LIST_SESSION] = "SELECT " EVENT_COLUMNS " FROM event INDEXED BY event_session"
		" WHERE session <> '' AND seq > ?1 AND session = ?4 AND (?3 IS NULL OR tenant = ?3)"
		" ORDER BY seq LIMIT ?2",
	[SQL_EVENT_LIST_SESSION_DOWN] = "SELECT " EVENT_COLUMNS " FROM event INDEXED BY event_session"
		" WHERE session <> '' AND seq < ?1 AND session = ?4 AND (?3 IS NULL OR tenant = ?3)"
		" ORDER BY seq DESC LIMIT ?2",
	[SQL_EVENT_LAST] = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'event'), 0)",
	[SQL_EVENT_PRUNE] = "DELETE FROM event WHERE seq IN (SELECT seq FROM"
		" (SELECT seq, time_ms FROM event ORDER BY seq LIMIT ?2) WHERE time_ms < ?1)"
		" RETURNING tenant",
	[SQL_EVENT_COUNT] = "SELECT count(*) FROM event INDEXED BY event_tenant WHERE tenant = ?",
	[SQL_EVENT_DROP] = "DELETE FROM event WHERE seq IN (SELECT seq FROM event"
		" INDEXED BY event_tenant WHERE tenant = ? ORDER BY seq LIMIT ?)",

	[SQL_NET_APPEND] = "INSERT INTO net (tenant, session, time_ms, kind, allowed, name, data,"
		" execution) VALUES (" Q5 ", ?, ?, ?)",
	/* Whether the filter lets it through: 1 or 0. The data, which may be long, is not read. */
	[SQL_NET_LOOK] = "SELECT seq, (?4 IS NULL OR kind = ?4) AND (?5 < 0 OR allowed = ?5)"
		" AND (?6 IS NULL OR name = ?6) AND (?7 IS NULL OR execution = ?7) FROM net INDEXED BY net_session"
		" WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
	[SQL_NET_ROW] = "SELECT " NET_COLUMNS " FROM net WHERE seq = ?",
	[SQL_NET_LAST] = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'net'), 0)",
	[SQL_NET_COUNT] = "SELECT coalesce(sum(" NET_WEIGHT "), 0) FROM net INDEXED BY net_session"
		" WHERE session = ?",
	/* Each weighs 1 at least, so that no more than ?2 have to be looked at. */
	[SQL_NET_DROP] = "DELETE FROM net WHERE session = ?1 AND seq <= (SELECT max(seq) FROM"
		" (SELECT seq, sum(weight) OVER (ORDER BY seq) - weight AS before FROM"
		" (SELECT seq, " NET_WEIGHT " AS weight FROM net INDEXED BY net_session"
		" WHERE session = ?1 ORDER BY seq LIMIT ?2)) WHERE before < ?2) RETURNING " NET_WEIGHT,
	[SQL_NET_PRUNE] = "DELETE FROM net WHERE seq IN (SELECT seq FROM"
		" (SELECT seq, time_ms FROM net ORDER BY seq LIMIT ?2) WHERE time_ms < ?1)"
		" RETURNING tenant",
	[SQL_NET_COUNT_TENANT] = "SELECT count(*) FROM net INDEXED BY net_tenant WHERE tenant = ?",
	[SQL_NET_DROP_TENANT] = "DELETE FROM net WHERE seq IN (SELECT seq FROM net"
		" INDEXED BY net_tenant WHERE tenant = ? ORDER BY seq LIMIT ?)",

	/* The right side is the row before; details stay with the result that they belong to. */
	[SQL_PACKAGE_ADD] = "INSERT INTO package (tenant, session, ecosystem, registry, name, version,"
		" result, attempts, downloads, refusals, bytes, first_ms, last_ms, execution, data)"
		" VALUES (" Q5 ", " Q5 ", " Q5 ") ON CONFLICT (session, ecosystem, registry, name, version)"
		" DO UPDATE SET attempts = attempts + excluded.attempts,"
		" downloads = downloads + excluded.downloads, refusals = refusals + excluded.refusals,"
		" bytes = min(bytes + excluded.bytes, " NUMBER_MAX "), last_ms = max(last_ms, excluded.last_ms),"
		" execution = CASE WHEN excluded.result >= result THEN excluded.execution ELSE execution END,"
		" data = CASE WHEN " PACKAGE_FILES("data") " = '{}' AND " PACKAGE_FILES("excluded.data") " = '{}'"
		" THEN " PACKAGE_DATA " WHEN length(data) > 16384" /* so many files that no more are noted */
		" THEN json_set(" PACKAGE_DATA ", '$.files', json(" PACKAGE_FILES("data") "))"
		" ELSE json_set(" PACKAGE_DATA ", '$.files', json(json_patch(" PACKAGE_FILES("data") ", "
		PACKAGE_FILES("excluded.data") "))) END,"
		" result = max(result, excluded.result) RETURNING attempts",
	[SQL_PACKAGE_LOOK] = "SELECT seq, (?4 IS NULL OR ecosystem = ?4) AND (?5 IS NULL OR name = ?5)"
		" AND (?6 IS NULL OR execution = ?6) AND (?7 < 0 OR result = ?7)"
		" FROM package INDEXED BY package_session WHERE session = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3",
	[SQL_PACKAGE_ROW] = "SELECT " PACKAGE_COLUMNS " FROM package WHERE seq = ?",
	[SQL_PACKAGE_LAST] = "SELECT coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'package'), 0)",
	[SQL_PACKAGE_COUNT] = "SELECT count(*) FROM package INDEXED BY package_session WHERE session = ?",
	[SQL_PACKAGE_DROP] = "DELETE FROM package WHERE seq IN (SELECT seq FROM package"
		" INDEXED BY package_drop WHERE session = ? ORDER BY downloads > 0, seq LIMIT ?)",
	[SQL_PACKAGE_PRUNE] = "DELETE FROM package WHERE seq IN (SELECT seq FROM package"
		" INDEXED BY package_last WHERE last_ms < ?1 ORDER BY last_ms LIMIT ?2) RETURNING tenant",
	[SQL_PACKAGE_COUNT_TENANT] = "SELECT count(*) FROM package INDEXED BY package_tenant WHERE tenant = ?",
	[SQL_PACKAGE_DROP_TENANT] = "DELETE FROM package WHERE seq IN (SELECT seq FROM package"
		" INDEXED BY package_tenant WHERE tenant = ? ORDER BY seq LIMIT ?)",
	[SQL_PACKAGE_SUM_ADD] = "INSERT INTO package_sum (session, downloads, refusals, mismatches,"
		" bytes, hits) VALUES (" Q5 ", ?) ON CONFLICT (session) DO UPDATE SET"
		" downloads = downloads + excluded.downloads, refusals = refusals + excluded.refusals,"
		" mismatches = mismatches + excluded.mismatches,"
		" bytes = min(bytes + excluded.bytes, " NUMBER_MAX "),"
		" hits = hits + excluded.hits",
	[SQL_PACKAGE_SUM_GET] = "SELECT downloads, refusals, mismatches, bytes, hits FROM package_sum"
		" WHERE session = ?",
	[SQL_PACKAGE_SUM_DELETE] = "DELETE FROM package_sum WHERE session = ?",

	[SQL_NET_CLAIM_SET] = "INSERT OR REPLACE INTO used (session, rule, bytes_in, bytes_out)"
		" VALUES (?, ?, ?, ?)",
	[SQL_NET_CLAIM_EACH] = "SELECT rule, bytes_in, bytes_out FROM used WHERE session = ?"
		" ORDER BY rule LIMIT ?",
	[SQL_NET_CLAIM_DELETE] = "DELETE FROM used WHERE session = ?",
	[SQL_MCP_PIN_ADD] = "INSERT OR IGNORE INTO mcp_pin (session, tool, hash) VALUES (?, ?, ?)",
	[SQL_MCP_PIN_EACH] = "SELECT tool, hash FROM mcp_pin WHERE session = ? ORDER BY tool LIMIT ?",
	[SQL_MCP_PIN_DELETE] = "DELETE FROM mcp_pin WHERE session = ?",
	[SQL_MCP_PIN_SWEEP] = "DELETE FROM mcp_pin WHERE session NOT IN (SELECT id FROM session)",

	/* 256 labels in an hour: STORE_USAGE_LABELS. */
	[SQL_USAGE_ADD] = "INSERT INTO usage (tenant, hour_ms, label, cpu_us, memory_kib_ms,"
		" disk_kib_ms, net_bytes_in, net_bytes_out, sessions) SELECT tenant, ?2,"
		" CASE WHEN EXISTS (SELECT 1 FROM usage u WHERE u.tenant = o.tenant AND u.hour_ms = ?2"
		" AND u.label = o.label) OR (SELECT count(*) FROM usage u WHERE u.tenant = o.tenant"
		" AND u.hour_ms = ?2) < 256 THEN label ELSE '(other)' END, ?3, ?4, ?5, ?6, ?7, ?8"
		" FROM (SELECT tenant, CASE WHEN json_valid(metadata) THEN"
		" substr(coalesce(CAST(json_extract(metadata, '$.label') AS TEXT), ''), 1, 63)"
		" ELSE '' END AS label FROM session WHERE id = ?1) o WHERE true"
		" ON CONFLICT (tenant, hour_ms, label) DO UPDATE SET cpu_us = cpu_us + excluded.cpu_us,"
		" memory_kib_ms = memory_kib_ms + excluded.memory_kib_ms,"
		" disk_kib_ms = disk_kib_ms + excluded.disk_kib_ms,"
		" net_bytes_in = net_bytes_in + excluded.net_bytes_in,"
		" net_bytes_out = net_bytes_out + excluded.net_bytes_out,"
		" sessions = sessions + excluded.sessions",
	[SQL_USAGE_SET_MARK] = "INSERT OR REPLACE INTO usage_mark (session, cpu_us, net_bytes_in,"
		" net_bytes_out, seen_ns) VALUES (" Q5 ")",
	[SQL_USAGE_MARK] = "SELECT cpu_us, net_bytes_in, net_bytes_out, seen_ns FROM usage_mark"
		" WHERE session = ?",
	[SQL_USAGE_FORGET] = "DELETE FROM usage_mark WHERE session = ?",
	[SQL_USAGE_SUM] = "SELECT label, sum(cpu_us), sum(memory_kib_ms), sum(disk_kib_ms),"
		" sum(net_bytes_in), sum(net_bytes_out), sum(sessions) FROM usage WHERE tenant = ?1"
		" AND hour_ms >= ?2 AND hour_ms < ?3 GROUP BY label ORDER BY label LIMIT ?4",
	[SQL_USAGE_PRUNE] = "DELETE FROM usage WHERE rowid IN (SELECT rowid FROM usage"
		" INDEXED BY usage_hour WHERE hour_ms < ? LIMIT ?)",

	[SQL_SECRET_INSERT] = "INSERT INTO secret (" SECRET_COLUMNS ") VALUES ("
		Q5 ", " Q5 ", ?, ?, ?, ?)",
	[SQL_SECRET_UPDATE] = "UPDATE secret SET version = ?, updated_ms = ?, expires_ms = ?, ways = ?,"
		" metadata = ?, hosts = ?, methods = ?, paths = ?, places = ?, box = ? WHERE id = ?",
	[SQL_SECRET_RESEAL] = "UPDATE secret SET box = ?1 WHERE id = ?2 AND version = ?3",
	[SQL_SECRET_GET] = "SELECT " SECRET_COLUMNS " FROM secret WHERE id = ?",
	[SQL_SECRET_BY_NAME] = "SELECT " SECRET_COLUMNS " FROM secret WHERE tenant = ? AND name = ?",
	[SQL_SECRET_DELETE] = "DELETE FROM secret WHERE id = ?",
	[SQL_SECRET_LIST] = "SELECT " SECRET_COLUMNS " FROM secret WHERE tenant = ? AND name > ?"
		" ORDER BY name LIMIT ?",
	[SQL_SECRET_EACH] = "SELECT " SECRET_COLUMNS " FROM secret WHERE id > ? ORDER BY id LIMIT ?",
	[SQL_SECRET_EXPIRING] = "SELECT " SECRET_COLUMNS " FROM secret INDEXED BY secret_expires"
		" WHERE expires_ms > 0 AND expires_ms >= ?1 AND (expires_ms > ?1 OR id > ?2)"
		" AND expires_ms <= ?3 ORDER BY expires_ms, id LIMIT ?4",
	[SQL_SECRET_COUNT] = "SELECT count(*) FROM secret WHERE tenant = ?",

	[SQL_TEMPLATE_INSERT] = "INSERT INTO template (" TEMPLATE_COLUMNS ") VALUES ("
		Q5 ", " Q5 ", " Q5 ", " Q5 ", " Q5 ", ?, ?, ?)",
	[SQL_TEMPLATE_NEXT] = "SELECT coalesce(max(version), 0) + 1, coalesce(max(template_id), '') FROM template"
		" WHERE tenant = ? AND name = ?",
	[SQL_TEMPLATE_RETIRE_NAME] = "UPDATE template SET current = 0"
		" WHERE tenant = ? AND name = ? AND current = 1",
	[SQL_TEMPLATE_RETIRE] = "UPDATE template SET current = 0 WHERE id = ?",
	[SQL_TEMPLATE_DELETE] = "DELETE FROM template WHERE id = ? AND current = 0"
		" AND NOT EXISTS (SELECT 1 FROM template_tag WHERE version = template.id)",
	[SQL_TEMPLATE_EACH] = "SELECT " TEMPLATE_COLUMNS " FROM template ORDER BY tenant, name, version",
	[SQL_TEMPLATE_CURRENT] = "UPDATE template SET current = 1 WHERE id = ?",
	[SQL_TEMPLATE_PUBLIC] = "UPDATE template SET public = ? WHERE template_id = ?",
	[SQL_TEMPLATE_TAG_SET] = "INSERT INTO template_tag (template_id, tag, version, created_ms)"
		" VALUES (?, ?, ?, ?) ON CONFLICT (template_id, tag) DO UPDATE"
		" SET version = excluded.version, created_ms = excluded.created_ms",
	[SQL_TEMPLATE_TAG_DELETE] = "DELETE FROM template_tag WHERE template_id = ? AND tag = ?",
	[SQL_TEMPLATE_TAG_CLEAR] = "DELETE FROM template_tag WHERE template_id = ?",
	[SQL_TEMPLATE_TAG_EACH] = "SELECT template_id, tag, version, created_ms FROM template_tag"
		" ORDER BY template_id, tag",

	[SQL_LAYER_INSERT] = "INSERT INTO layer (" LAYER_COLUMNS ") VALUES (" Q5 ", ?, ?, ?, ?)",
	[SQL_LAYER_GET] = "SELECT " LAYER_ROW " FROM layer WHERE id = ?",
	[SQL_LAYER_FIND] = "SELECT " LAYER_ROW " FROM layer"
		" WHERE tenant = ? AND digest = ? AND digest <> '' AND state = 0 LIMIT 1",
	[SQL_LAYER_EACH] = "SELECT " LAYER_ROW " FROM layer WHERE state >= ? ORDER BY created_ms, id",
	/* Selects nothing, and so changes nothing, if the layer is not ready. */
	[SQL_LAYER_USE] = "INSERT INTO layer_use (owner_kind, owner, position, layer)"
		" SELECT ?, ?, ?, id FROM layer WHERE id = ? AND state = 0",
	[SQL_LAYER_UNUSE] = "DELETE FROM layer_use WHERE owner_kind = ? AND owner = ?",
	[SQL_LAYER_USED] = "SELECT layer FROM layer_use WHERE owner_kind = ? AND owner = ? ORDER BY position",
	[SQL_LAYER_DROP_STALE] = "DELETE FROM layer_use WHERE owner_kind = ? OR (owner_kind IN (?, ?)"
		" AND NOT EXISTS (SELECT 1 FROM session WHERE session.id = owner AND ended_ms = 0))"
		" OR (owner_kind = ? AND NOT EXISTS (SELECT 1 FROM template WHERE template.id = owner))",
	[SQL_LAYER_SWEEP] = "UPDATE layer SET state = 1 WHERE state = 0"
		" AND NOT EXISTS (SELECT 1 FROM layer_use WHERE layer = layer.id) RETURNING id",
	[SQL_LAYER_SWEEP_ONE] = "UPDATE layer SET state = 1 WHERE state = 0 AND id = ?"
		" AND NOT EXISTS (SELECT 1 FROM layer_use WHERE layer = layer.id)",
	[SQL_LAYER_HAND_OVER] = "UPDATE layer SET digest = '', tenant = (SELECT template.tenant"
		" FROM layer_use JOIN template ON template.id = owner WHERE layer = layer.id AND owner_kind = ?1"
		" AND template.tenant <> ?3 ORDER BY template.created_ms LIMIT 1)"
		" WHERE tenant = ?3 AND ?3 <> '' AND id IN (SELECT layer FROM layer_use WHERE owner_kind = ?1 AND owner = ?2)"
		" AND EXISTS (SELECT 1 FROM layer_use JOIN template ON template.id = owner"
		" WHERE layer = layer.id AND owner_kind = ?1 AND template.tenant <> ?3)"
		" AND NOT EXISTS (SELECT 1 FROM layer_use WHERE layer = layer.id AND owner <> ?2"
		" AND NOT (owner_kind = ?1 AND EXISTS (SELECT 1 FROM template WHERE template.id = owner AND template.tenant <> ?3)))",
	[SQL_LAYER_DELETE] = "DELETE FROM layer WHERE id = ? AND state = 1",
	[SQL_LAYER_SUM] = "SELECT coalesce(sum(max(bytes, entries * 16384)), 0), count(*) FROM layer"
		" WHERE tenant = ?",
	[SQL_LAYER_SHARED] = "SELECT coalesce(sum(max(bytes, entries * 16384)), 0), count(*) FROM layer"
		" WHERE tenant = ''"
		" AND id IN (SELECT layer FROM layer_use WHERE owner_kind = ? AND owner IN"
		" (SELECT id FROM template WHERE tenant = ?))",
	[SQL_LAYER_UNUSED] = "SELECT max(bytes, entries * 16384) FROM layer WHERE id = ?"
		" AND NOT EXISTS (SELECT 1 FROM layer_use WHERE layer = layer.id)",

	[SQL_VOLUME_INSERT] = "INSERT INTO volume (" VOLUME_COLUMNS ") VALUES (" Q5 ", ?, ?, ?, ?)",
	[SQL_VOLUME_SET_READY] = "UPDATE volume SET state = 1 WHERE id = ? AND state = 0",
	[SQL_VOLUME_SET_DYING] = "UPDATE volume SET state = 2 WHERE id = ?1 AND state < 2"
		" AND NOT EXISTS (SELECT 1" VOLUME_HOLDERS "?1)",
	[SQL_VOLUME_SET_KIND] = "UPDATE volume SET kind = ?2 WHERE id = ?1 AND state = 0",
	[SQL_VOLUME_DELETE] = "DELETE FROM volume WHERE id = ? AND state = 2",
	[SQL_VOLUME_GET] = "SELECT " VOLUME_COLUMNS " FROM volume WHERE id = ?",
	[SQL_VOLUME_BY_NAME] = "SELECT " VOLUME_COLUMNS " FROM volume"
		" WHERE tenant = ? AND name = ? AND state = 1",
	[SQL_VOLUME_LIST] = "SELECT " VOLUME_COLUMNS " FROM volume"
		" WHERE tenant = ? AND name > ? AND state = 1 ORDER BY name LIMIT ?",
	[SQL_VOLUME_UNREADY] = "SELECT " VOLUME_COLUMNS " FROM volume INDEXED BY volume_unready"
		" WHERE state <> 1 AND id > ? AND NOT EXISTS (SELECT 1" VOLUME_USES "volume.id)"
		" ORDER BY id LIMIT ?",
	[SQL_VOLUME_EXPIRED] = "SELECT " VOLUME_COLUMNS " FROM volume INDEXED BY volume_expires"
		" WHERE expires_ms > 0 AND state = 1 AND expires_ms <= ?1 AND NOT EXISTS"
		" (SELECT 1" VOLUME_USES "volume.id) ORDER BY expires_ms LIMIT ?2",
	[SQL_VOLUME_SUM] = "SELECT count(*), coalesce(sum(bytes), 0) FROM volume WHERE tenant = ?",
	[SQL_VOLUME_ADD_USE] = "INSERT INTO volume_use (volume, session)"
		" SELECT id, ?2 FROM volume WHERE id = ?1 AND state = 1"
		" ON CONFLICT DO UPDATE SET volume = excluded.volume",
	[SQL_VOLUME_USES] = "SELECT count(*)" VOLUME_HOLDERS "?",
	[SQL_BUILD_INSERT] = "INSERT INTO build (" BUILD_COLUMNS ") VALUES ("
		Q5 ", " Q5 ", " Q5 ")",
	[SQL_BUILD_UPDATE] = "UPDATE build SET status = ?, step = ?, reason = ?, version = ?,"
		" updated_ms = ?, finished_ms = ?, log_bytes = ? WHERE id = ?",
	[SQL_BUILD_GET] = "SELECT " BUILD_COLUMNS " FROM build WHERE id = ?",
	[SQL_BUILD_BY_TEMPLATE] = "SELECT " BUILD_COLUMNS " FROM build WHERE template_id = ?"
		" ORDER BY created_ms DESC, id LIMIT 1",
	[SQL_BUILD_BY_NAME] = "SELECT " BUILD_COLUMNS " FROM build WHERE tenant = ? AND name = ?"
		" ORDER BY created_ms DESC, id LIMIT 1",
	[SQL_BUILD_BY_VERSION] = "SELECT " BUILD_COLUMNS " FROM build WHERE version = ? LIMIT 1",
	[SQL_BUILD_LIST] = "SELECT " BUILD_COLUMNS " FROM build WHERE template_id = ?"
		" ORDER BY created_ms DESC, id LIMIT ? OFFSET ?",
	[SQL_BUILD_TEMPLATES] = BUILD_NEWEST " ORDER BY name LIMIT 1000",
	[SQL_BUILD_COUNT] = "SELECT count(*) FROM build WHERE tenant = ? AND status = ?",
	[SQL_BUILD_COUNT_OF] = "SELECT count(*) FROM build WHERE template_id = ?",
	[SQL_BUILD_GIVE_UP] = "UPDATE build SET status = ?, reason = ?, updated_ms = ?,"
		" finished_ms = ?, log_bytes = min(log_bytes, 65536) WHERE status = ?",
	[SQL_BUILD_EXPIRE] = "UPDATE build SET status = ?, reason = ?, updated_ms = ?,"
		" finished_ms = ? WHERE status = ? AND created_ms < ?",
	[SQL_BUILD_SETTLE] = "UPDATE build SET status = ?, updated_ms = ?, finished_ms = ?,"
		" log_bytes = min(log_bytes, 65536)"
		" WHERE status = ? AND version IN (SELECT id FROM template)",
	/* The sweep at the start makes layers without a use dying. */
	[SQL_BUILD_UNUSE] = "DELETE FROM layer_use WHERE owner_kind = ?",
	[SQL_BUILD_ANY] = "SELECT " BUILD_COLUMNS " FROM build WHERE tenant = ? LIMIT 1",
	[SQL_BUILD_NAMES] = BUILD_NAMES "SELECT count(*) FROM names WHERE n IS NOT NULL",
	[SQL_BUILD_UNMADE] = BUILD_NEWEST " AND template_id NOT IN (SELECT template_id FROM build"
		" WHERE tenant = ?1 AND status IN (?2, ?3)) AND NOT EXISTS"
		" (SELECT 1 FROM template WHERE template.template_id = build.template_id)"
		" ORDER BY created_ms LIMIT ?4",
	[SQL_BUILD_GONE_LOGS] = GONE "SELECT 0, tenant, id FROM build WHERE template_id = ?",
	[SQL_BUILD_GONE_UPLOADS] = GONE "SELECT 1, tenant, template_id FROM build"
		" WHERE template_id = ? LIMIT 1",
	[SQL_BUILD_GONE_LOG] = GONE "SELECT 0, tenant, id FROM build WHERE id = ?",
	[SQL_BUILD_GONE_ANY] = "SELECT kind, tenant, id FROM build_gone LIMIT 1",
	[SQL_BUILD_GONE_DELETE] = "DELETE FROM build_gone WHERE kind = ? AND tenant = ? AND id = ?",
	[SQL_BUILD_DELETE_TEMPLATE] = "DELETE FROM build WHERE template_id = ?",
	[SQL_BUILD_GONE_OLD] = GONE "SELECT 0, tenant, id FROM build WHERE id IN (" OLD_BUILDS ")",
	[SQL_BUILD_PRUNE] = "DELETE FROM build WHERE id IN (" OLD_BUILDS ")",
	[SQL_BUILD_LOG_ADD] = "INSERT INTO build_log (build, seq, time_ms, level, step, message)"
		" VALUES (" Q5 ", ?)",
	[SQL_BUILD_LOG_LIST] = "SELECT seq, time_ms, level, step, message FROM build_log"
		" WHERE build = ? AND level >= ? AND (? = '' OR step = ?) ORDER BY seq"
		" LIMIT ? OFFSET ?",
	[SQL_BUILD_LOG_SUM] = "SELECT coalesce(sum(log_bytes), 0) FROM build"
		" WHERE tenant = ? AND log_bytes > 0",
	[SQL_BUILD_LOG_OLDEST] = "SELECT id FROM build WHERE tenant = ? AND log_bytes > 0"
		" AND finished_ms > 0 ORDER BY finished_ms LIMIT 1",
	[SQL_BUILD_LOG_NONE] = "UPDATE build SET log_bytes = 0 WHERE id = ?",
	[SQL_BUILD_LOG_REMOVE] = "DELETE FROM build_log WHERE build = ? AND seq IN"
		" (SELECT seq FROM build_log WHERE build = ? LIMIT ?)",
	[SQL_BUILD_LOG_ANY] = "SELECT 1 FROM build_log WHERE build = ? LIMIT 1",
	[SQL_BUILD_CACHE_PUT] = "INSERT OR REPLACE INTO build_cache (" CACHE_COLUMNS ") VALUES ("
		Q5 ", ?, ?, ?)",
	[SQL_BUILD_CACHE_GET] = "SELECT " CACHE_COLUMNS " FROM build_cache"
		" WHERE tenant = ? AND key = ?",
	[SQL_BUILD_CACHE_TOUCH] = "UPDATE build_cache SET used_ms = ? WHERE tenant = ? AND key = ?",
	[SQL_BUILD_CACHE_OLDEST] = "SELECT " CACHE_COLUMNS " FROM build_cache"
		" WHERE tenant = ? ORDER BY used_ms LIMIT 1",
	[SQL_BUILD_CACHE_IDLE] = "SELECT " CACHE_COLUMNS " FROM build_cache"
		" WHERE tenant = ? AND layer <> ''"
		" AND (SELECT count(*) FROM layer_use WHERE layer_use.layer = build_cache.layer) < 2"
		" ORDER BY used_ms LIMIT 1",
	[SQL_BUILD_CACHE_DELETE] = "DELETE FROM build_cache WHERE tenant = ? AND key = ?",
	[SQL_BUILD_CACHE_UNUSE] = "DELETE FROM layer_use WHERE owner_kind = ?1 AND owner IN"
		" (SELECT tenant || ':' || key FROM build_cache WHERE tenant = ?2)",
	[SQL_BUILD_CACHE_CLEAR] = "DELETE FROM build_cache WHERE tenant = ?",
	[SQL_BUILD_CACHE_SUM] = "SELECT coalesce(sum(bytes), 0), count(*) FROM build_cache",
	[SQL_BUILD_CACHE_SHARE] = "SELECT ?, coalesce(sum(bytes), 0), count(*) FROM build_cache"
		" WHERE tenant = ?",
	[SQL_BUILD_CACHE_MOST_BYTES] = CACHE_SHARES " ORDER BY 2 DESC LIMIT 1",
	[SQL_BUILD_CACHE_MOST_ROWS] = CACHE_SHARES " ORDER BY 3 DESC LIMIT 1",
	[SQL_BUILD_UPLOAD_PUT] = "INSERT OR REPLACE INTO build_upload (" UPLOAD_COLUMNS
		") VALUES (" Q5 ", ?, ?)",
	[SQL_BUILD_UPLOAD_GET] = "SELECT " UPLOAD_COLUMNS " FROM build_upload"
		" WHERE tenant = ? AND template_id = ? AND hash = ?",
	[SQL_BUILD_UPLOAD_DELETE] = "DELETE FROM build_upload WHERE file = ?",
	[SQL_BUILD_UPLOAD_EACH] = "SELECT " UPLOAD_COLUMNS " FROM build_upload ORDER BY used_ms",
	[SQL_BUILD_UPLOAD_OF] = "SELECT " UPLOAD_COLUMNS " FROM build_upload"
		" WHERE tenant = ? AND template_id = ?",
	[SQL_BUILD_UPLOAD_SUM] = "SELECT coalesce(sum(bytes), 0), count(*) FROM build_upload"
		" WHERE tenant = ?",
	[SQL_BUILD_UPLOAD_BY_FILE] = "SELECT 1 FROM build_upload WHERE file = ?",

	[SQL_RECORDS_GET] = "SELECT rows, bytes FROM records WHERE tenant = ?",
	[SQL_RECORDS_ADD] = "INSERT INTO records (tenant, rows, bytes) VALUES (?, ?, ?)"
		" ON CONFLICT (tenant) DO UPDATE SET rows = max(0, rows + excluded.rows),"
		" bytes = max(0, bytes + excluded.bytes)",
};
/* clang-format on */
static_assert(COUNT(sql_text) == SQL_COUNT, "a text for every statement");
