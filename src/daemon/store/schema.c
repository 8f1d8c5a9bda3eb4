/* schema.c - the database's schema as a list of steps, one for each version.
 *
 * A released step is never changed, nor its place in the list: databases of every older version are
 * brought up to date by the steps that they have not seen. A change of the schema is a new step at
 * the end, and STORE_VERSION + 1. A step is one transaction. It must be quick on a large table (ADD
 * COLUMN with a constant default is), since the server does not answer before its end. */
#include "daemon/store/schema.h"

#include <assert.h>
#include <stdio.h>

#include "daemon/store/stmt.h"
#include "lib/base/own.h"

/* clang-format off */
static const char version_1[] =
	"CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;"

	"CREATE TABLE tenant ("
	" id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, operator INTEGER NOT NULL,"
	" disabled INTEGER NOT NULL, created_ms INTEGER NOT NULL, max_sessions INTEGER NOT NULL,"
	" create_rate_milli INTEGER NOT NULL, create_burst INTEGER NOT NULL,"
	" queue_length INTEGER NOT NULL, queue_ms INTEGER NOT NULL,"
	" max_memory INTEGER NOT NULL, max_storage INTEGER NOT NULL) STRICT, WITHOUT ROWID;"

	"CREATE TABLE key ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenant(id), name TEXT NOT NULL,"
	" hash BLOB NOT NULL UNIQUE CHECK (length(hash) = 32), prefix TEXT NOT NULL,"
	" scopes INTEGER NOT NULL, created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
	" last_used_ms INTEGER NOT NULL, revoked_ms INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE INDEX key_tenant ON key (tenant, created_ms, id);"

	/* Columns changed by a transition are in front: SQLite reads a row from its start. */
	"CREATE TABLE session ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenant(id),"
	" state INTEGER NOT NULL, reason INTEGER NOT NULL, created_ms INTEGER NOT NULL,"
	" started_ms INTEGER NOT NULL, ended_ms INTEGER NOT NULL, deadline_ms INTEGER NOT NULL,"
	" paused_since_ms INTEGER NOT NULL, paused_total_ms INTEGER NOT NULL,"
	" boot_id TEXT NOT NULL, pid INTEGER NOT NULL, detail TEXT NOT NULL,"
	" template TEXT NOT NULL, profile INTEGER NOT NULL, level INTEGER NOT NULL,"
	" timeout_ms INTEGER NOT NULL, idle_ms INTEGER NOT NULL,"
	" on_timeout INTEGER NOT NULL, on_idle INTEGER NOT NULL,"
	" memory_bytes INTEGER NOT NULL, cpu_millis INTEGER NOT NULL, pids INTEGER NOT NULL,"
	" disk_bytes INTEGER NOT NULL, inodes INTEGER NOT NULL, nofile INTEGER NOT NULL,"
	" output_bytes INTEGER NOT NULL,"
	" used_cpu_us INTEGER NOT NULL, used_memory_peak INTEGER NOT NULL,"
	" used_disk INTEGER NOT NULL, used_bytes_out INTEGER NOT NULL,"
	" metadata TEXT NOT NULL, rules TEXT NOT NULL, network TEXT NOT NULL, mounts TEXT NOT NULL,"
	" env BLOB NOT NULL) STRICT;"
	"CREATE INDEX session_tenant ON session (tenant, created_ms, id);"
	"CREATE INDEX session_created ON session (created_ms, id);"
	"CREATE INDEX session_live ON session (tenant) WHERE ended_ms = 0;"
	"CREATE INDEX session_ended ON session (ended_ms) WHERE ended_ms > 0;"

	"CREATE TABLE execution ("
	" id TEXT PRIMARY KEY, session TEXT NOT NULL REFERENCES session(id) ON DELETE CASCADE,"
	" tenant TEXT NOT NULL, kind INTEGER NOT NULL, handle INTEGER NOT NULL,"
	" state INTEGER NOT NULL, created_ms INTEGER NOT NULL, started_ms INTEGER NOT NULL,"
	" ended_ms INTEGER NOT NULL, timeout_ms INTEGER NOT NULL, exit_code INTEGER NOT NULL,"
	" signal INTEGER NOT NULL, limit_hit TEXT NOT NULL, timed_out INTEGER NOT NULL,"
	" error_code INTEGER NOT NULL, error TEXT NOT NULL, out_bytes INTEGER NOT NULL,"
	" err_bytes INTEGER NOT NULL, log_bytes INTEGER NOT NULL, truncated INTEGER NOT NULL,"
	" cpu_us INTEGER NOT NULL, tty INTEGER NOT NULL, user TEXT NOT NULL, cwd TEXT NOT NULL,"
	" command_hash BLOB NOT NULL CHECK (length(command_hash) = 32), command TEXT NOT NULL"
	") STRICT;"
	"CREATE INDEX execution_session ON execution (session, created_ms, id);"
	"CREATE INDEX execution_live ON execution (session) WHERE ended_ms = 0;"

	/* AUTOINCREMENT: a number is not given again after its row has been pruned. */
	"CREATE TABLE event ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, session TEXT NOT NULL,"
	" execution TEXT NOT NULL, time_ms INTEGER NOT NULL, type TEXT NOT NULL,"
	" data TEXT NOT NULL) STRICT;"
	"CREATE INDEX event_tenant ON event (tenant, seq);"
	"CREATE INDEX event_session ON event (session, seq) WHERE session <> '';";

/* An execution's own bound, for the daemon that adopts it. */
static const char version_2[] = "ALTER TABLE execution ADD COLUMN output_limit INTEGER NOT NULL DEFAULT 0";

/* Whether a process that it left may still write output after its end. */
static const char version_3[] =
	"ALTER TABLE execution ADD COLUMN output_open INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX execution_open ON execution (session) WHERE output_open = 1 AND ended_ms > 0;";

/* The mark of the processes it started, also of those that it left behind. */
static const char version_4[] =
	"ALTER TABLE execution ADD COLUMN mark INTEGER NOT NULL DEFAULT 0;"
	"CREATE INDEX execution_mark ON execution (session, mark) WHERE mark > 0;";

/* Data that the interface keeps with a session or execution it made. */
static const char version_5[] =
	"ALTER TABLE session ADD COLUMN client TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execution ADD COLUMN client TEXT NOT NULL DEFAULT '';";

/* The logs that can be deleted to make room, and their bytes, from the index alone. */
static const char version_6[] =
	"CREATE INDEX execution_kept ON execution (session, ended_ms, id, log_bytes, output_open)"
	" WHERE log_bytes > 0 AND output_open = 0 AND ended_ms > 0;";

/* The servers that sessions may contact, their secrets, and network records. These have a table of
 * their own: they are many, and are kept for a shorter time than events. */
static const char version_7[] =
	"ALTER TABLE tenant ADD COLUMN policy TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE session ADD COLUMN policy TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE session ADD COLUMN secrets TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE session ADD COLUMN net_bytes_in INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN net_bytes_out INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN net_requests INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE net ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, session TEXT NOT NULL,"
	" time_ms INTEGER NOT NULL, kind TEXT NOT NULL, allowed INTEGER NOT NULL,"
	" name TEXT NOT NULL, data TEXT NOT NULL) STRICT;"
	"CREATE INDEX net_session ON net (session, seq);";

/* Secrets: their purpose in the clear, their values sealed. */
static const char version_8[] =
	"CREATE TABLE secret ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenant(id), name TEXT NOT NULL,"
	" version INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
	" expires_ms INTEGER NOT NULL, ways INTEGER NOT NULL, metadata TEXT NOT NULL,"
	" hosts TEXT NOT NULL, methods TEXT NOT NULL, paths TEXT NOT NULL, places TEXT NOT NULL,"
	" box BLOB NOT NULL, UNIQUE (tenant, name)) STRICT;"
	"CREATE INDEX secret_expires ON secret (expires_ms) WHERE expires_ms > 0;";

/* Lists that look at a bounded number of rows, by index alone, and the size of records. */
static const char version_9[] =
	"ALTER TABLE session ADD COLUMN size INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE execution ADD COLUMN size INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE records (tenant TEXT PRIMARY KEY, rows INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"DROP INDEX session_created;"
	"DROP INDEX session_tenant;"
	"CREATE INDEX session_look ON session (tenant, created_ms, id, state, ended_ms, template);"
	"DROP INDEX session_ended;"
	"CREATE INDEX session_retire ON session (ended_ms, id);"
	"DROP INDEX execution_session;"
	"CREATE INDEX execution_look ON execution (session, created_ms, id, state, ended_ms, tenant,"
	" size);";

/* The use that live sessions made of their limits, for the next egress. */
static const char version_10[] =
	"CREATE TABLE used ("
	" session TEXT NOT NULL, rule TEXT NOT NULL, bytes_in INTEGER NOT NULL,"
	" bytes_out INTEGER NOT NULL, PRIMARY KEY (session, rule)) STRICT, WITHOUT ROWID;";
/* Count the size of records written before version 9. */
static const char version_11[] =
	"UPDATE session SET size = 1024 + length(env) + length(CAST(mounts AS BLOB))"
	" + length(CAST(metadata AS BLOB)) + length(CAST(rules AS BLOB))"
	" + length(CAST(network AS BLOB)) + length(CAST(client AS BLOB))"
	" + length(CAST(policy AS BLOB)) + length(CAST(secrets AS BLOB)) WHERE size = 0;"
	"UPDATE execution SET size = 1024 + length(CAST(command AS BLOB))"
	" + length(CAST(cwd AS BLOB)) WHERE size = 0;"
	"DELETE FROM records;"
	"INSERT INTO records (tenant, rows, bytes) SELECT tenant, count(*), sum(size) FROM"
	" (SELECT tenant, size FROM session UNION ALL SELECT tenant, size FROM execution)"
	" GROUP BY tenant;";

/* The request that caused it: see store_actor.h. "" in old rows, which means the server itself. */
static const char version_12[] =
	"ALTER TABLE event ADD COLUMN actor_interface TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE event ADD COLUMN actor_key TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE event ADD COLUMN actor_request TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execution ADD COLUMN actor_interface TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execution ADD COLUMN actor_key TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execution ADD COLUMN actor_request TEXT NOT NULL DEFAULT '';";

/* Records are bounded for each tenant. So are the processes that its sessions are promised. The index
 * is the one step that takes time on a large table: about a second for a million records. */
static const char version_13[] =
	"CREATE INDEX net_tenant ON net (tenant, seq);"
	"ALTER TABLE tenant ADD COLUMN max_pids INTEGER NOT NULL DEFAULT 0;";

/* The sessions that tenants and keys may make: see store_allow.h. */
static const char version_14[] =
	"ALTER TABLE tenant ADD COLUMN allow_templates TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE tenant ADD COLUMN allow_levels TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE tenant ADD COLUMN allow_networks TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE tenant ADD COLUMN allow_memory INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE tenant ADD COLUMN allow_cpu_milli INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE tenant ADD COLUMN allow_pids INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE tenant ADD COLUMN allow_disk INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE tenant ADD COLUMN allow_timeout_ms INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_templates TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE key ADD COLUMN allow_levels TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE key ADD COLUMN allow_networks TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE key ADD COLUMN allow_memory INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_cpu_milli INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_pids INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_disk INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_timeout_ms INTEGER NOT NULL DEFAULT 0;";

/* Resource use by hour and label, and up to where it was added: see store_usage.h. */
static const char version_15[] =
	"CREATE TABLE usage ("
	" tenant TEXT NOT NULL, hour_ms INTEGER NOT NULL, label TEXT NOT NULL,"
	" cpu_us INTEGER NOT NULL, memory_kib_ms INTEGER NOT NULL, disk_kib_ms INTEGER NOT NULL,"
	" net_bytes_in INTEGER NOT NULL, net_bytes_out INTEGER NOT NULL, sessions INTEGER NOT NULL,"
	" PRIMARY KEY (tenant, hour_ms, label)) STRICT;"
	"CREATE INDEX usage_hour ON usage (hour_ms);"
	"CREATE TABLE usage_mark (session TEXT PRIMARY KEY, cpu_us INTEGER NOT NULL,"
	" net_bytes_in INTEGER NOT NULL, net_bytes_out INTEGER NOT NULL) STRICT, WITHOUT ROWID;";

/* The execution that a network record came from. "": not known, as in all rows of earlier
 * versions. */
static const char version_16[] = "ALTER TABLE net ADD COLUMN execution TEXT NOT NULL DEFAULT '';";

/* The templates of sessions: see store_template.h. Sessions refer to a version. "" in sessions of
 * earlier versions with their only template. */
static const char version_17[] =
	"CREATE TABLE template ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT NOT NULL, version INTEGER NOT NULL,"
	" current INTEGER NOT NULL, kind INTEGER NOT NULL, level INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, layers TEXT NOT NULL, mounts TEXT NOT NULL, env BLOB NOT NULL,"
	" user TEXT NOT NULL, workdir TEXT NOT NULL, start_command TEXT NOT NULL,"
	" ready_command TEXT NOT NULL, UNIQUE (tenant, name, version)) STRICT, WITHOUT ROWID;"
	"CREATE UNIQUE INDEX template_current ON template (tenant, name) WHERE current = 1;"
	"ALTER TABLE session ADD COLUMN template_id TEXT NOT NULL DEFAULT '';";

/* Live sessions are those with ended_ms = 0, which session_retire finds as well. */
static const char version_18[] = "DROP INDEX session_live;";

/* The secrets of this execution alone (secret_spec.h), and where they are. */
static const char version_19[] =
	"ALTER TABLE execution ADD COLUMN secrets TEXT NOT NULL DEFAULT '';"
	"CREATE INDEX execution_secrets ON execution (session) WHERE secrets <> '';";

/* Whether the diff is to be kept at the end of the session, and the result. */
static const char version_20[] =
	"ALTER TABLE session ADD COLUMN keep_diff INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN diff_bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN diff_why TEXT NOT NULL DEFAULT '';"
	"CREATE INDEX session_diff ON session (tenant, diff_bytes) WHERE diff_bytes > 0;";

/* Until when memory and disk of a live session were added (the monotonic clock of its boot). */
static const char version_21[] = "ALTER TABLE usage_mark ADD COLUMN seen_ns INTEGER NOT NULL DEFAULT 0;";

/* How many sessions may be made with a key, and by which key each was made. */
static const char version_22[] =
	"ALTER TABLE tenant ADD COLUMN allow_sessions INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE tenant ADD COLUMN allow_creates INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_sessions INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE key ADD COLUMN allow_creates INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN creator_key TEXT NOT NULL DEFAULT '';";

/* Layers on disk and what uses them: see store_layer.h. The session that a snapshot was made of. */
static const char version_23[] =
	"CREATE TABLE layer ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL, kind TEXT NOT NULL, bytes INTEGER NOT NULL,"
	" entries INTEGER NOT NULL, created_ms INTEGER NOT NULL, state INTEGER NOT NULL,"
	" digest TEXT NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE INDEX layer_tenant ON layer (tenant, digest);"
	"CREATE TABLE layer_use ("
	" owner_kind INTEGER NOT NULL, owner TEXT NOT NULL, position INTEGER NOT NULL,"
	" layer TEXT NOT NULL REFERENCES layer(id), PRIMARY KEY (owner_kind, owner, position))"
	" STRICT, WITHOUT ROWID;"
	"CREATE INDEX layer_use_layer ON layer_use (layer);"
	"ALTER TABLE template ADD COLUMN source TEXT NOT NULL DEFAULT '';";

/* Volumes and which sessions mount them: see store_volume.h. */
static const char version_24[] =
	"CREATE TABLE volume ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL REFERENCES tenant(id), name TEXT NOT NULL,"
	" kind INTEGER NOT NULL, state INTEGER NOT NULL, bytes INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, expires_ms INTEGER NOT NULL,"
	" generation INTEGER NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE UNIQUE INDEX volume_name ON volume (tenant, name) WHERE state < 2;"
	"CREATE INDEX volume_unready ON volume (id) WHERE state <> 1;"
	"CREATE INDEX volume_expires ON volume (expires_ms) WHERE expires_ms > 0 AND state = 1;"
	"CREATE INDEX volume_tenant ON volume (tenant, bytes);"
	"CREATE TABLE volume_use ("
	" session TEXT NOT NULL REFERENCES session(id) ON DELETE CASCADE,"
	" volume TEXT NOT NULL REFERENCES volume(id) ON DELETE CASCADE,"
	" PRIMARY KEY (session, volume)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX volume_use_volume ON volume_use (volume);";

/* Builds of templates: see store_build.h. */
static const char version_25[] =
	"CREATE TABLE build ("
	" id TEXT PRIMARY KEY, tenant TEXT NOT NULL, template_id TEXT NOT NULL, name TEXT NOT NULL,"
	" status INTEGER NOT NULL, step TEXT NOT NULL, cpu_millis INTEGER NOT NULL,"
	" memory_bytes INTEGER NOT NULL, created_ms INTEGER NOT NULL, updated_ms INTEGER NOT NULL,"
	" finished_ms INTEGER NOT NULL, version TEXT NOT NULL, tags TEXT NOT NULL,"
	" reason TEXT NOT NULL) STRICT;"
	"CREATE INDEX build_template ON build (template_id, created_ms);"
	"CREATE INDEX build_name ON build (tenant, name, created_ms);"
	"CREATE INDEX build_status ON build (tenant, status);"
	"CREATE INDEX build_version ON build (version) WHERE version <> '';"
	"CREATE TABLE build_log ("
	" build TEXT NOT NULL, seq INTEGER NOT NULL, time_ms INTEGER NOT NULL,"
	" level INTEGER NOT NULL, step TEXT NOT NULL, message TEXT NOT NULL,"
	" PRIMARY KEY (build, seq)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE build_cache ("
	" tenant TEXT NOT NULL, key TEXT NOT NULL, layer TEXT NOT NULL, bytes INTEGER NOT NULL,"
	" used_ms INTEGER NOT NULL, user TEXT NOT NULL, workdir TEXT NOT NULL, env BLOB NOT NULL,"
	" PRIMARY KEY (tenant, key)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX build_cache_used ON build_cache (used_ms);"
	"CREATE TABLE build_upload ("
	" tenant TEXT NOT NULL, template_id TEXT NOT NULL, hash TEXT NOT NULL,"
	" digest TEXT NOT NULL, file TEXT NOT NULL UNIQUE, bytes INTEGER NOT NULL,"
	" used_ms INTEGER NOT NULL, PRIMARY KEY (tenant, template_id, hash)) STRICT, WITHOUT ROWID;";

/* Templates with an id of their own, tags, owners, and their sources. Earlier versions get an id
 * for each name. */
static const char version_26[] =
	"ALTER TABLE template ADD COLUMN template_id TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE template ADD COLUMN public INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE template ADD COLUMN bytes INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE template ADD COLUMN provenance TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE template ADD COLUMN offered_command TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE template ADD COLUMN cpu_millis INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE template ADD COLUMN memory_bytes INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE template_new_id AS SELECT tenant, name, lower(hex(randomblob(10))) AS id"
	" FROM (SELECT DISTINCT tenant, name FROM template);"
	"UPDATE template SET template_id = (SELECT id FROM template_new_id AS n"
	" WHERE n.tenant = template.tenant AND n.name = template.name);"
	"DROP TABLE template_new_id;"
	"CREATE INDEX template_by_id ON template (template_id);"
	"CREATE TABLE template_tag ("
	" template_id TEXT NOT NULL, tag TEXT NOT NULL,"
	" version TEXT NOT NULL REFERENCES template(id), created_ms INTEGER NOT NULL,"
	" PRIMARY KEY (template_id, tag)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX template_tag_version ON template_tag (version);";

/* Bytes of layers of a tenant. Whether a session has a cell: see session_suspend.h. */
static const char version_27[] =
	"ALTER TABLE tenant ADD COLUMN max_stored INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN cold INTEGER NOT NULL DEFAULT 0;";

/* The kind of the session's disk, whether its root directory is read-only, how fast its disk may
 * be, and how long a persistent session is kept. */
static const char version_28[] =
	"ALTER TABLE session ADD COLUMN storage INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN read_only INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN read_bps INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN write_bps INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE session ADD COLUMN keep_ms INTEGER NOT NULL DEFAULT 0;";

/* When a snapshot is removed. 0: when a request does. */
static const char version_29[] =
	"ALTER TABLE template ADD COLUMN expires_ms INTEGER NOT NULL DEFAULT 0;";

/* The way to run a template's start command. Result bytes of code executions. */
static const char version_30[] =
	"ALTER TABLE template ADD COLUMN start_restart INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE template ADD COLUMN interpreter INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE execution ADD COLUMN result_bytes INTEGER NOT NULL DEFAULT 0;";

/* Definitions of tools of MCP servers, as they were first seen. */
static const char version_31[] =
	"CREATE TABLE mcp_pin ("
	" session TEXT NOT NULL, tool TEXT NOT NULL, hash TEXT NOT NULL,"
	" PRIMARY KEY (session, tool)) STRICT, WITHOUT ROWID;";

/* In which language code was, and for which context. */
static const char version_32[] =
	"ALTER TABLE execution ADD COLUMN language TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execution ADD COLUMN context TEXT NOT NULL DEFAULT '';";

/* Packages that sessions asked for, and their sums: see store_package.h. */
static const char version_33[] =
	"CREATE TABLE package ("
	" seq INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, session TEXT NOT NULL,"
	" ecosystem TEXT NOT NULL, registry TEXT NOT NULL, name TEXT NOT NULL, version TEXT NOT NULL,"
	" result INTEGER NOT NULL, attempts INTEGER NOT NULL, downloads INTEGER NOT NULL,"
	" refusals INTEGER NOT NULL, bytes INTEGER NOT NULL, first_ms INTEGER NOT NULL,"
	" last_ms INTEGER NOT NULL, execution TEXT NOT NULL, data TEXT NOT NULL) STRICT;"
	"CREATE UNIQUE INDEX package_key ON package (session, ecosystem, registry, name, version);"
	"CREATE INDEX package_session ON package (session, seq);"
	"CREATE INDEX package_drop ON package (session, downloads > 0, seq);"
	"CREATE INDEX package_tenant ON package (tenant, seq);"
	"CREATE TABLE package_sum ("
	" session TEXT PRIMARY KEY, downloads INTEGER NOT NULL, refusals INTEGER NOT NULL,"
	" mismatches INTEGER NOT NULL, bytes INTEGER NOT NULL, hits INTEGER NOT NULL)"
	" STRICT, WITHOUT ROWID;";

/* Rows of packages expire by their last attempt. */
static const char version_34[] =
	"CREATE INDEX package_last ON package (last_ms);";

/* Sessions in which a server of the interpreter was started (kind 3). */
static const char version_35[] =
	"CREATE INDEX execution_interpreter ON execution (session) WHERE kind = 3;";

/* Results of packages have one more, `hidden`, below the others but 0. */
static const char version_36[] =
	"UPDATE package SET result = result + 1 WHERE result > 0;";

/* Memory images that guests of sessions map. */
static const char version_37[] =
	"ALTER TABLE session ADD COLUMN image TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE session ADD COLUMN image_bytes INTEGER NOT NULL DEFAULT 0;";

/* The environment of programs in a snapshot's memory. */
static const char version_38[] =
	"ALTER TABLE template ADD COLUMN memory_profile INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE template ADD COLUMN memory_read_only INTEGER NOT NULL DEFAULT 0;";

/* The origin of guest images and of sessions' guests. */
static const char version_39[] =
	"ALTER TABLE layer ADD COLUMN origin TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE session ADD COLUMN guest_origin TEXT NOT NULL DEFAULT '';";

/* Logs of builds count for their tenant (those of before by a guess), and go in pieces. Steps in the
 * cache are found by tenant. */
static const char version_40[] =
	"ALTER TABLE build ADD COLUMN log_bytes INTEGER NOT NULL DEFAULT 65536;"
	"CREATE INDEX build_logs ON build (tenant, finished_ms, log_bytes) WHERE log_bytes > 0;"
	"CREATE TABLE build_gone (kind INTEGER NOT NULL, tenant TEXT NOT NULL, id TEXT NOT NULL,"
	" PRIMARY KEY (kind, tenant, id)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX build_cache_tenant ON build_cache (tenant, used_ms, bytes);";

/* Ports of a session that clients without a key may use. */
static const char version_41[] =
	"ALTER TABLE session ADD COLUMN ports TEXT NOT NULL DEFAULT '';";

/* Sealed values that the session of a layer was given. */
static const char version_42[] =
	"CREATE TABLE layer_value ("
	" seq INTEGER PRIMARY KEY, layer TEXT NOT NULL, tenant TEXT NOT NULL, about TEXT NOT NULL,"
	" name TEXT NOT NULL, hosts TEXT NOT NULL, bytes INTEGER NOT NULL, box BLOB NOT NULL) STRICT;"
	"CREATE INDEX layer_value_layer ON layer_value (layer);"
	"CREATE INDEX layer_value_tenant ON layer_value (tenant, bytes);";

/* Whether it was paused because the storage folder had no room: see session_room.h. */
static const char version_43[] =
	"ALTER TABLE session ADD COLUMN room INTEGER NOT NULL DEFAULT 0;";

/* For which tenant a version counts that only sessions of others keep. */
static const char version_44[] = "ALTER TABLE template ADD COLUMN payer TEXT NOT NULL DEFAULT '';";

/* Resources that sessions used over their whole life: see store_sample.h. */
static const char version_45[] =
	"CREATE TABLE sample ("
	" session TEXT NOT NULL REFERENCES session(id) ON DELETE CASCADE, seq INTEGER NOT NULL,"
	" time_ms INTEGER NOT NULL, span_ms INTEGER NOT NULL, looks INTEGER NOT NULL,"
	" cpu_us INTEGER NOT NULL, memory_bytes INTEGER NOT NULL,"
	" memory_max_bytes INTEGER NOT NULL, disk_bytes INTEGER NOT NULL, pids INTEGER NOT NULL,"
	" net_bytes_in INTEGER NOT NULL, net_bytes_out INTEGER NOT NULL,"
	" PRIMARY KEY (session, seq)) STRICT, WITHOUT ROWID;";

/* Whether what clients send to an execution is recorded in its log. */
static const char version_46[] =
	"ALTER TABLE execution ADD COLUMN record_input INTEGER NOT NULL DEFAULT 0;";

/* Audit logs, see store_audit.h. The id of a record is its log, times 2^40, plus its number. */
static const char version_47[] =
	"CREATE TABLE audit_log ("
	" id INTEGER PRIMARY KEY AUTOINCREMENT, tenant TEXT NOT NULL, epoch INTEGER NOT NULL,"
	" created_ms INTEGER NOT NULL, first INTEGER NOT NULL, hashed INTEGER NOT NULL,"
	" bytes INTEGER NOT NULL, alarm TEXT NOT NULL, note_size INTEGER NOT NULL,"
	" note_ms INTEGER NOT NULL, note_root BLOB NOT NULL, note TEXT NOT NULL,"
	" UNIQUE (tenant, epoch)) STRICT;"
	"CREATE TABLE audit ("
	" id INTEGER PRIMARY KEY, time_ms INTEGER NOT NULL, session TEXT NOT NULL,"
	" leaf BLOB NOT NULL, side TEXT NOT NULL) STRICT;"
	"CREATE INDEX audit_session ON audit (session) WHERE session <> '';"
	"CREATE TABLE audit_tile ("
	" log INTEGER NOT NULL, level INTEGER NOT NULL, idx INTEGER NOT NULL, hashes BLOB NOT NULL,"
	" PRIMARY KEY (log, level, idx)) STRICT;"
	/* A key of the operator with every scope gets the new one, so that there is one to give. */
	"UPDATE key SET scopes = 15 WHERE scopes = 7 AND tenant IN"
	" (SELECT id FROM tenant WHERE operator <> 0);";

/* Resources that sessions used by hour, as the sums of their tenant: see store_usage.h. */
static const char version_48[] =
	"CREATE TABLE usage_session ("
	" session TEXT NOT NULL REFERENCES session(id) ON DELETE CASCADE, hour_ms INTEGER NOT NULL,"
	" cpu_us INTEGER NOT NULL, memory_kib_ms INTEGER NOT NULL, disk_kib_ms INTEGER NOT NULL,"
	" net_bytes_in INTEGER NOT NULL, net_bytes_out INTEGER NOT NULL, sessions INTEGER NOT NULL,"
	" PRIMARY KEY (session, hour_ms)) STRICT, WITHOUT ROWID;";

/* Rules of alarms of a session: alarm_rules.h. */
static const char version_49[] =
	"ALTER TABLE session ADD COLUMN alarms TEXT NOT NULL DEFAULT '';";

/* A session's refused system calls in past cells. */
static const char version_50[] =
	"ALTER TABLE session ADD COLUMN refused TEXT NOT NULL DEFAULT '';";

/* Whether its programs are traced: enum session_trace. */
static const char version_51[] =
	"ALTER TABLE session ADD COLUMN trace INTEGER NOT NULL DEFAULT 0;";

/* Keys of requests that make something once. */
static const char version_52[] =
	"CREATE TABLE once ("
	" tenant TEXT NOT NULL, key TEXT NOT NULL, digest BLOB NOT NULL, object TEXT NOT NULL,"
	" created_ms INTEGER NOT NULL, PRIMARY KEY (tenant, key)) STRICT, WITHOUT ROWID;"
	"CREATE INDEX once_age ON once (created_ms);";

/* Checkpoints of audit logs that are kept besides the last one, and the keys of a log. */
static const char version_53[] =
	"ALTER TABLE audit_log ADD COLUMN vkey TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE audit_log ADD COLUMN named TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE audit_log ADD COLUMN named_seq INTEGER NOT NULL DEFAULT 0;"
	"CREATE TABLE audit_note ("
	" log INTEGER NOT NULL, size INTEGER NOT NULL, kind INTEGER NOT NULL,"
	" vkey TEXT NOT NULL, note TEXT NOT NULL, PRIMARY KEY (log, size, kind)) STRICT;";

/* The trace that a client gave at the create of a session. */
static const char version_54[] =
	"ALTER TABLE session ADD COLUMN traceparent TEXT NOT NULL DEFAULT '';";

/* Where the audit records of a session are, see store_audit.c. */
static const char version_55[] =
	"DROP INDEX audit_session;"
	"CREATE TABLE audit_range ("
	" owner TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL,"
	" PRIMARY KEY (owner, first)) STRICT, WITHOUT ROWID;"
	"INSERT INTO audit_range (owner, first, last)"
	" SELECT a.session, min(a.id), max(a.id) FROM audit a JOIN audit_log l ON l.id = a.id >> 40"
	" WHERE a.session <> '' AND a.id < (l.id << 40) + l.hashed GROUP BY a.session, a.id >> 8;";

/* What is covered in the output of a session beside its secrets, and how often it was. */
static const char version_56[] =
	"ALTER TABLE session ADD COLUMN redact TEXT NOT NULL DEFAULT '';"
	"ALTER TABLE execution ADD COLUMN redacted TEXT NOT NULL DEFAULT '';";

/* The last network record of a session that a batch in the audit log covers, see net_batch.c.
 * Records from before have none. */
static const char version_57[] =
	"ALTER TABLE session ADD COLUMN net_batched INTEGER NOT NULL DEFAULT 0;"
	"UPDATE session SET net_batched"
	" = coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'net'), 0);";

/* A tenant's own setting captured_secrets. 0: it has none. */
static const char version_58[] =
	"ALTER TABLE tenant ADD COLUMN captured_secrets INTEGER NOT NULL DEFAULT 0;";

/* The last number of an event is kept by store_event.c: by SQLite it was a page of the journal and 5
 * us for each event. Without AUTOINCREMENT only inserts differ, the file's format is the same. So the
 * text of the table is changed as https://www.sqlite.org/lang_altertable.html describes it, and no
 * row is copied. */
static const char version_59[] =
	"PRAGMA writable_schema = ON;"
	"UPDATE sqlite_schema SET sql = replace(sql, ' AUTOINCREMENT', '')"
	" WHERE type = 'table' AND name = 'event';"
	"PRAGMA writable_schema = RESET;"
	"INSERT INTO meta (key, value)"
	" SELECT 'event_last', CAST(seq AS TEXT) FROM sqlite_sequence WHERE name = 'event';"
	"DELETE FROM sqlite_sequence WHERE name = 'event';";

/* What is covered in the sessions of a tenant. */
static const char version_60[] =
	"ALTER TABLE tenant ADD COLUMN redact TEXT NOT NULL DEFAULT '';";

/* Tokens of model calls, in the same sums as the other resources. */
static const char version_61[] =
	"ALTER TABLE usage ADD COLUMN tokens_in INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage ADD COLUMN tokens_out INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_session ADD COLUMN tokens_in INTEGER NOT NULL DEFAULT 0;"
	"ALTER TABLE usage_session ADD COLUMN tokens_out INTEGER NOT NULL DEFAULT 0;";

/* Files whose reads are recorded, see session_watch.h. */
static const char version_62[] =
	"ALTER TABLE session ADD COLUMN watch_reads TEXT NOT NULL DEFAULT '';";

/* It was written twice for each execution, and read at the start of a server only. There the index
 * execution_look has the same columns. */
static const char version_63[] = "DROP INDEX execution_live;";
/* clang-format on */

const char *const schema_steps[] = {
	version_1,  version_2,	version_3,  version_4,	version_5,  version_6,	version_7,
	version_8,  version_9,	version_10, version_11, version_12, version_13, version_14,
	version_15, version_16, version_17, version_18, version_19, version_20, version_21,
	version_22, version_23, version_24, version_25, version_26, version_27, version_28,
	version_29, version_30, version_31, version_32, version_33, version_34, version_35,
	version_36, version_37, version_38, version_39, version_40, version_41, version_42,
	version_43, version_44, version_45, version_46, version_47, version_48, version_49,
	version_50, version_51, version_52, version_53, version_54, version_55, version_56,
	version_57, version_58, version_59, version_60, version_61, version_62, version_63,
};
static_assert(COUNT(schema_steps) == STORE_VERSION, "a step for every version");

/* ---- migration */

static int schema_run(sqlite3 *db, const char *sql, struct err *e)
{
	int code = sqlite3_exec(db, sql, NULL, NULL, NULL);

	return code == SQLITE_OK ? 0 : sql_error(db, code, "schema", "", e);
}

static int schema_number(sqlite3 *db, const char *sql, int64_t *ret, struct err *e)
{
	sqlite3_stmt *st = NULL;
	int code = sqlite3_prepare_v2(db, sql, -1, &st, NULL);

	if (code == SQLITE_OK)
		code = sqlite3_step(st);
	if (code == SQLITE_ROW)
		*ret = sqlite3_column_int64(st, 0);
	(void)sqlite3_finalize(st);
	return code == SQLITE_ROW ? 0 : sql_error(db, code, "schema", "", e);
}

/* Check that the database is Cordon's, or empty. */
static int schema_check_file(sqlite3 *db, size_t n, int64_t *ret_version, struct err *e)
{
	int64_t application = 0, tables = 0, version = 0;

	if (schema_number(db, "PRAGMA application_id", &application, e) < 0 ||
	    schema_number(db, "PRAGMA user_version", &version, e) < 0 ||
	    schema_number(db, "SELECT count(*) FROM sqlite_schema", &tables, e) < 0)
		return -1;
	if (application != SCHEMA_APPLICATION && (application != 0 || version != 0 || tables != 0))
		return err_set(e, ERR_INVALID, "store: the file is not a database of Cordon's");
	if (version < 0 || version > (int64_t)n)
		return err_set(
			e, ERR_UNSUPPORTED,
			"store: the database has schema version %lld, and this program knows "
			"%zu: it was made by a newer Cordon",
			(long long)version, n);
	*ret_version = version;
	return 0;
}

static int schema_take_step(sqlite3 *db, const char *step, int version, struct err *e)
{
	char mark[96];
	int done, defensive = 1;

	(void)snprintf(mark, sizeof(mark), "PRAGMA application_id = %d; PRAGMA user_version = %d",
		       SCHEMA_APPLICATION, version);
	/* A step may change the text of a table. Else the store cannot: set_up() of store.c. */
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, -1, &defensive);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 0, NULL);
	done = schema_run(db, "BEGIN IMMEDIATE", e);
	if (done == 0 && (schema_run(db, step, e) < 0 || schema_run(db, mark, e) < 0 ||
			  schema_run(db, "COMMIT", e) < 0))
		done = -1;
	if (sqlite3_get_autocommit(db) == 0)
		(void)sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL);
	(void)sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, defensive, NULL);
	return done == 0 ? 0 : err_wrap(e, "schema version %d", version);
}

int schema_migrate(sqlite3 *db, const char *const *steps, size_t n, struct err *e)
{
	int64_t version = 0;

	if (schema_check_file(db, n, &version, e) < 0)
		return -1;
	for (; version < (int64_t)n; version++)
		if (schema_take_step(db, steps[version], (int)version + 1, e) < 0)
			return -1;
	return 0;
}
