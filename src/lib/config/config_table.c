#include "lib/config/config_table.h"

#include <assert.h>
#include <string.h>

#include "lib/base/log.h"

#define KIB (1ULL << 10)
#define MIB (1ULL << 20)
#define GIB (1ULL << 30)
#define TIB (1ULL << 40)
#define SECOND 1000ULL
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define MANY 1000000000ULL

static const char *const formats[] = { "logfmt", "json", NULL };
static_assert(COUNT(formats) == LOG_FORMATS + 1, "every format of log.h");
static const char *const levels[] = { "debug", "info", "warn", "error", NULL };
static_assert(COUNT(levels) == LOG_LEVELS + 1, "every level of log.h");

static const char *const captured[] = { "refuse", "name", "allow", NULL };
static_assert(COUNT(captured) == CONFIG_CAPTURED_CHOICES + 1, "every choice of config.h");

static const char *const metrics[] = { "key", "local", "open", NULL };
static_assert(COUNT(metrics) == CONFIG_METRICS_CHOICES + 1, "every choice of config.h");

#define FIELD(name) offsetof(struct config, name)
#define PATH_LONGEST (CONFIG_PATH_MAX - 1)
/* run_dir/unix_socket must fit into a socket's address, unix(7): 108 bytes. Sockets of cells are
 * addressed below a descriptor (daemon/cells/cell_socket.c). */
#define RUN_LONGEST 72

/* clang-format off */
const struct config_setting config_table[] = {
	{ "listen", "HOST:PORT", CONFIG_TEXT, FIELD(listen), "127.0.0.1:4983", 0, 127, NULL,
	  "numeric address to listen at, [..]:PORT for IPv6, or localhost:PORT; port 0 takes any that is free; "
	  "empty: no TCP",
	  .group = "Where it listens" },
	{ "allow_remote_plain", "yes|no", CONFIG_BOOL, FIELD(allow_remote_plain), "no", 0, 0, NULL,
	  "listen at addresses that other machines can reach even without TLS: keys and output are then sent unencrypted" },
	{ "domain", "NAME[:PORT]", CONFIG_DOMAIN, FIELD(domain), "", 0, CONFIG_DOMAIN_MAX - 1, NULL,
	  "the server's public name, such as sandboxes.example.com; the interface is at api.NAME, port 3000 of session X "
	  "at 3000-X.NAME; PORT is the one that clients use (with TLS by default the one of listen, else 80)",
	  .shown = "localhost and the port of listen; with tls_local cordon.localhost" },
	{ "node_name", "NAME", CONFIG_TEXT, FIELD(node_name), "", 0, SESSION_ID_NODE_MAX - 1, NULL,
	  "part of the ids of new sessions, so that ids show which server made them; a-z and 0-9" },
	{ "tls_cert", "FILE", CONFIG_PATH, FIELD(tls_cert), "", 0, PATH_LONGEST, NULL,
	  "certificate chain, PEM, with a wildcard for domain; with tls_key it turns TLS on; SIGHUP reads both again" },
	{ "tls_key", "FILE", CONFIG_PATH, FIELD(tls_key), "", 0, PATH_LONGEST, NULL,
	  "private key of tls_cert, PEM" },
	{ "tls_local", "yes|no", CONFIG_BOOL, FIELD(tls_local), "no", 0, 0, NULL,
	  "TLS with a certificate for domain and all below it that the server makes and renews itself; clients must "
	  "trust tls/ca.pem in state_dir, an authority that is good for these names only" },
	{ "unix_socket", "PATH", CONFIG_TEXT, FIELD(unix_socket), "cordon.sock", 0, 107, NULL,
	  "Unix socket to listen at; a relative name is in run_dir; empty: none" },
	{ "connections_max", "COUNT", CONFIG_COUNT, FIELD(connections_max), "4096", 1, 1000000, NULL,
	  "client connections at a time" },
	{ "unkeyed_per_address", "COUNT", CONFIG_COUNT, FIELD(unkeyed_per_address), "1024", 0, 1000000, NULL,
	  "connections of one address (IPv6: of one /64 network) that have not shown a key; with a reverse proxy in "
	  "front all clients have its address; 0: no bound. Three quarters of connections_max is the bound for all "
	  "addresses" },
	{ "head_timeout", "TIME", CONFIG_TIME, FIELD(head_timeout_ms), "10s", 100, HOUR, NULL,
	  "time a client has to send the head of a request" },
	{ "body_timeout", "TIME", CONFIG_TIME, FIELD(body_timeout_ms), "30s", 100, HOUR, NULL,
	  "time without a byte of a request's body after which the connection is closed" },
	{ "write_timeout", "TIME", CONFIG_TIME, FIELD(write_timeout_ms), "30s", 100, HOUR, NULL,
	  "time without a client reading a byte of its answer after which the connection is closed" },
	{ "keepalive", "TIME", CONFIG_TIME, FIELD(keepalive_ms), "620s", 100, DAY, NULL,
	  "time a connection may be idle between two requests" },

	{ "state_dir", "DIR", CONFIG_PATH, FIELD(state_dir), NULL, 1, 200, NULL,
	  "directory for what must survive a reboot: the database, logs of executions",
	  .group = "Files, user, log", .alias = "state",
	  .shown = "/var/lib/cordon; for a user $XDG_STATE_HOME/cordon or ~/.local/state/cordon" },
	{ "run_dir", "DIR", CONFIG_PATH, FIELD(run_dir), NULL, 1, RUN_LONGEST, NULL,
	  "directory for what need not survive a reboot: sockets", .alias = "run",
	  .shown = "/run/cordon-server; for a user $XDG_RUNTIME_DIR/cordon or run in the state directory" },
	{ "user", "NAME", CONFIG_TEXT, FIELD(user), "cordon", 1, CONFIG_NAME_MAX - 1, NULL,
	  "user that cordond runs as when root starts it" },
	{ "secrets_key_file", "FILE", CONFIG_PATH, FIELD(secrets_key_file), "", 0, PATH_LONGEST, NULL,
	  "keys that secrets are encrypted with, lines of id:base64 of 32 bytes: the first encrypts, all decrypt; the variable "
	  "CORDON_SECRETS_KEY does the same; without either a key is made in state_dir/secrets.key" },
	{ "log_format", "FORMAT", CONFIG_CHOICE, FIELD(log_format), "logfmt", 0, 0, formats,
	  "format of log lines: logfmt or json" },
	{ "log_level", "LEVEL", CONFIG_CHOICE, FIELD(log_level), "info", 0, 0, levels,
	  "least important events that are logged: debug, info, warn, error" },

	{ "metrics", "WHO", CONFIG_CHOICE, FIELD(metrics), "key", 0, 0, metrics,
	  "clients that may read /metrics, which has numbers of all tenants: key: with a key of the operator, scope read; "
	  "local: also all clients of this machine (a reverse proxy on it is one, too); open: all" },

	{ "template", "NAME", CONFIG_TEXT, FIELD(template), "host", 1, CONFIG_NAME_MAX - 1, NULL,
	  "template of sessions that name none: host, or one that was added", .group = "What sessions are made from" },
	{ "template_dir", "DIR", CONFIG_PATH, FIELD(template_dir), "", 0, 200, NULL,
	  "directory whose directories can be added as templates; it must belong to the user that starts the server and have mode 0700",
	  .shown = "templates in state_dir" },
	{ "storage_dir", "DIR", CONFIG_PATH, FIELD(storage_dir), "", 0, 200, NULL,
	  "directory for what outlives cells: layers of snapshots and images, disks, volumes; it must belong to the user that starts the "
	  "server and have mode 0700",
	  .shown = "storage in state_dir" },
	{ "runsc", "FILE", CONFIG_PATH, FIELD(runsc), "", 0, PATH_LONGEST, NULL,
	  "program of gVisor, for sessions of level gvisor: runsc of 20240729 or later, which only root or the user that starts "
	  "the server may change",
	  .shown = "runsc in /usr/local/sbin, /usr/local/bin, /usr/sbin or /usr/bin" },
	{ "levels", "NAME,...", CONFIG_TEXT, FIELD(levels), "container,gvisor,microvm", 1, 127, NULL,
	  "isolation levels that sessions may have, of container, gvisor and microvm; one that this machine cannot do is refused with the reason" },
	{ "volume_size_default", "SIZE", CONFIG_BYTES, FIELD(volume_size_default), "8G", 8 * MIB, 64 * TIB, NULL,
	  "size of a volume that does not set it" },
	{ "volume_size_max", "SIZE", CONFIG_BYTES, FIELD(volume_size_max), "1T", 8 * MIB, 64 * TIB, NULL,
	  "size that a volume may set" },
	{ "registries", "HOST,...", CONFIG_TEXT, FIELD(registries), "*", 0, 1023, NULL,
	  "registries that images may be pulled from: HOST or HOST:PORT, *.DOMAIN, or * for all; only those that are named exactly may have "
	  "private addresses; plain http is used for loopback only; empty: none" },
	{ "image_mirror", "HOST=URL,...", CONFIG_TEXT, FIELD(image_mirror), "", 0, 511, NULL,
	  "mirrors of registries, such as docker.io=http://127.0.0.1:5000, which are asked first, without credentials; empty: none" },
	{ "package_cache_size", "SIZE", CONFIG_BYTES, FIELD(package_cache_size), "10G", 0, 64 * TIB, NULL,
	  "bytes of package files and metadata that cordon-cache keeps for all sessions; one file at most a quarter of it; what was used least is removed first; 0: no cache" },
	{ "storage_reserve", "PERCENT", CONFIG_COUNT, FIELD(storage_reserve), "5", 0, 90, NULL,
	  "percent of the file systems of state_dir and storage_dir that stay free: below it nothing that is kept on disk is made, "
	  "such requests are answered with 507, and sessions whose disks or volumes grow are paused" },
	{ "mount_roots", "PATH[:rw],...", CONFIG_ROOTS, FIELD(mount_roots), "", 0, CONFIG_ROOTS_MAX, NULL,
	  "directories of this machine that sessions may mount from, read-only unless :rw; at most 8" },
	{ "mount_unsafe_roots", "yes|no", CONFIG_BOOL, FIELD(mount_unsafe_roots), "no", 0, 0, NULL,
	  "lets mount_roots name directories that open the machine to sessions: /, /proc, /sys, /dev, /run, /etc, /boot, /var, /home, home directories, "
	  "this server's own, and those above them; /usr writable" },
	{ "pool_size", "COUNT", CONFIG_COUNT, FIELD(pool_size), "8", 0, 4096, NULL,
	  "cells that are made in advance; 0: no pool" },
	{ "pool_max", "COUNT", CONFIG_COUNT, FIELD(pool_max), "64", 0, 4096, NULL,
	  "largest size of the pool, which grows when demand is high" },
	{ "pool_refill_per_second", "RATE", CONFIG_MILLIS, FIELD(pool_refill_milli), "100", 100,
	  10000000, NULL, "cells per second that are made in advance" },
	{ "pool_started_size", "COUNT", CONFIG_COUNT, FIELD(pool_started_size), "2", 0, 1024, NULL,
	  "cells in which the start command of their template, or a guest (level gvisor or microvm), runs in advance, for each template that "
	  "has one and is in use; up to four times as many when demand is high, but at microvm for all templates together; 0: none" },
	{ "pool_started_keep", "TIME", CONFIG_TIME, FIELD(pool_started_keep_ms), "10m", 0, 30 * DAY, NULL,
	  "how long after the last session of such a template its cells are kept" },

	{ "node_max_sessions", "COUNT", CONFIG_COUNT, FIELD(node_max_sessions), "0", 0, 1000000, NULL,
	  "sessions of all tenants at a time; 0: one for each 4 MiB of the machine's memory, limited by the "
	  "descriptors that cordond may have, and at least 1000", .group = "Limits of the node" },
	{ "node_max_memory", "SIZE", CONFIG_BYTES, FIELD(node_max_memory), "0", 0, 64 * TIB, NULL,
	  "sum of the memory limits of all sessions; 0: no bound but the memory that the machine has left" },
	{ "node_memory_limit", "SIZE", CONFIG_BYTES, FIELD(node_memory_limit), "0", 0, 64 * TIB, NULL,
	  "memory that all cells together can use, enforced by the kernel; 0: seven eighths of the machine's" },
	{ "node_pids_limit", "COUNT", CONFIG_COUNT, FIELD(node_pids_limit), "0", 0, 4194304, NULL,
	  "processes and threads that all cells together can have; 0: three quarters of the machine's" },
	{ "best_effort", "yes|no", CONFIG_BOOL, FIELD(best_effort), "no", 0, 0, NULL,
	  "start even if the memory, processors or processes of cells cannot be limited on this machine" },
	{ "keepers", "COUNT", CONFIG_COUNT, FIELD(keepers), "0", 0, 16, NULL,
	  "processes of cordon-keeper, which make and remove cells; 0: one for each processor, at most 4" },
	{ "keeper_timeout", "TIME", CONFIG_TIME, FIELD(keeper_timeout_ms), "30s", 500, HOUR, NULL,
	  "time without an answer of cordon-keeper after which it is killed and started again" },
	{ "egress_processes", "COUNT", CONFIG_COUNT, FIELD(egress_processes), "0", 0, 8, NULL,
	  "processes of cordon-egress, over which sessions are spread; 0: one for each two processors, at most 4" },
	{ "egress_timeout", "TIME", CONFIG_TIME, FIELD(egress_timeout_ms), "15s", 500, HOUR, NULL,
	  "the same for cordon-egress" },
	{ "node_create_rate", "RATE", CONFIG_MILLIS, FIELD(node_create_rate_milli), "1000", 0, MANY, NULL,
	  "sessions created per second; 0: no limit" },

	{ "memory_default", "SIZE", CONFIG_BYTES, FIELD(memory_default), "0", 0, 64 * TIB, NULL,
	  "memory of a session that does not set it, files that it writes included; 0: a sixteenth of the machine's memory, at most 2G, and at least 1G if that is a quarter of it, else a quarter, at least 512M", .group = "Limits of a session" },
	{ "memory_max", "SIZE", CONFIG_BYTES, FIELD(memory_max), "8G", 4 * MIB, 64 * TIB, NULL,
	  "memory that a session may set" },
	{ "cpus_default", "NUMBER", CONFIG_MILLIS, FIELD(cpus_default_milli), "1", 10, 1000000, NULL,
	  "processors' worth of time of a session that does not set it" },
	{ "cpus_max", "NUMBER", CONFIG_MILLIS, FIELD(cpus_max_milli), "16", 10, 1000000, NULL,
	  "processors' worth of time that a session may set" },
	{ "pids_default", "COUNT", CONFIG_COUNT, FIELD(pids_default), "512", 2, 4194304, NULL,
	  "processes and threads of a session that does not set it" },
	{ "pids_max", "COUNT", CONFIG_COUNT, FIELD(pids_max), "8192", 2, 4194304, NULL,
	  "processes and threads that a session may set" },
	{ "disk_default", "SIZE", CONFIG_BYTES, FIELD(disk_default), "0", 0, 64 * TIB, NULL,
	  "bytes in files of a session that does not set it; they count as its memory; 0: three quarters of memory_default, at least 256M" },
	{ "disk_max", "SIZE", CONFIG_BYTES, FIELD(disk_max), "8G", 64 * KIB, 64 * TIB, NULL,
	  "bytes in files that a session may set" },
	{ "storage_disk_default", "SIZE", CONFIG_BYTES, FIELD(storage_disk_default), "4G", 32 * MIB, 64 * TIB, NULL,
	  "size of the disk of a session with storage disk that does not set it" },
	{ "storage_disk_max", "SIZE", CONFIG_BYTES, FIELD(storage_disk_max), "100G", 32 * MIB, 64 * TIB, NULL,
	  "size of the disk that a session with storage disk may set" },
	{ "guest_root_max", "SIZE", CONFIG_BYTES, FIELD(guest_root_max), "8G", 16 * MIB, 8 * TIB, NULL,
	  "size of the root image that a template becomes for sessions at level microvm, the machine's own files in the template host not counted; a larger one is refused" },
	{ "inodes_default", "COUNT", CONFIG_COUNT, FIELD(inodes_default), "131072", 64, 4294967000ULL, NULL,
	  "files of a session that does not set it" },
	{ "inodes_max", "COUNT", CONFIG_COUNT, FIELD(inodes_max), "4194304", 64, 4294967000ULL, NULL,
	  "files that a session may set" },
	{ "nofile_default", "COUNT", CONFIG_COUNT, FIELD(nofile_default), "16384", 16, 1048576, NULL,
	  "open files of each process, in a session that does not set it" },
	{ "nofile_max", "COUNT", CONFIG_COUNT, FIELD(nofile_max), "1048576", 16, 1048576, NULL,
	  "open files of each process that a session may set" },
	{ "session_timeout_default", "TIME", CONFIG_TIME, FIELD(session_timeout_default_ms), "5m", SECOND,
	  30 * DAY, NULL, "lifetime of a session that does not set it; paused time does not count" },
	{ "session_timeout_max", "TIME", CONFIG_TIME, FIELD(session_timeout_max_ms), "1d", SECOND, 30 * DAY,
	  NULL, "longest lifetime that a session may set" },
	{ "idle_timeout_default", "TIME", CONFIG_TIME, FIELD(idle_timeout_default_ms), "0", 0, 30 * DAY,
	  NULL, "time without a call or a running execution after which a session that does not set it is "
	  "paused or ended; 0: never" },
	{ "persist_idle", "TIME", CONFIG_TIME, FIELD(persist_idle_ms), "10m", SECOND, 30 * DAY, NULL,
	  "time without a call or a running execution after which the cell of a persistent session that sets no "
	  "idle_timeout is stopped; its next use starts it again" },
	{ "persist_keep_default", "TIME", CONFIG_TIME, FIELD(persist_keep_default_ms), "30d", SECOND, 3650 * DAY, NULL,
	  "time without use after which a persistent session that does not set it is deleted with its disk" },
	{ "persist_keep_max", "TIME", CONFIG_TIME, FIELD(persist_keep_max_ms), "365d", SECOND, 3650 * DAY, NULL,
	  "longest such time that a persistent session may set" },
	{ "cold_keep", "TIME", CONFIG_TIME, FIELD(cold_keep_ms), "30d", 0, 3650 * DAY, NULL,
	  "time without use after which any other session that is paused without memory is deleted with its files; "
	  "0: never" },
	{ "pause_keep", "TIME", CONFIG_TIME, FIELD(pause_keep_ms), "30d", 0, 3650 * DAY, NULL,
	  "time without use after which a session that is paused with its memory, which it still takes, is deleted; 0: never" },
	{ "snapshot_keep", "TIME", CONFIG_TIME, FIELD(snapshot_keep_ms), "0", 0, 3650 * DAY, NULL,
	  "time after which a snapshot that is made without expires_in is removed; 0: never, it counts against "
	  "tenant_max_stored until it is removed" },
	{ "unattended_timeout", "TIME", CONFIG_TIME, FIELD(unattended_timeout_ms), "1d", 0, 30 * DAY, NULL,
	  "time without a running server after which a cell ends by itself; 0: never" },

	{ "exec_timeout_default", "TIME", CONFIG_TIME, FIELD(exec_timeout_default_ms), "0", 0, 30 * DAY,
	  NULL, "time limit of an execution that does not set it; 0: exec_timeout_max",
	  .group = "Limits of an execution" },
	{ "exec_timeout_max", "TIME", CONFIG_TIME, FIELD(exec_timeout_max_ms), "0", 0, 30 * DAY, NULL,
	  "longest time limit that an execution may set; 0: the lifetime of its session" },
	{ "output_limit_default", "SIZE", CONFIG_BYTES, FIELD(output_limit_default), "16M", 4 * KIB,
	  64 * TIB, NULL, "bytes of output kept of an execution, in a session that does not set it" },
	{ "output_limit_max", "SIZE", CONFIG_BYTES, FIELD(output_limit_max), "1G", 4 * KIB, 64 * TIB, NULL,
	  "bytes of output kept of an execution that a session may set" },
	{ "e2b_refusals", "yes|no", CONFIG_BOOL, FIELD(e2b_refusals), "yes", 0, 0, NULL,
	  "a process of an E2B client that failed, without a terminal, ends its stderr with a line that names the hosts "
	  "that the network policy refused it" },
	{ "e2b_limits", "yes|no", CONFIG_BOOL, FIELD(e2b_limits), "yes", 0, 0, NULL,
	  "a process of an E2B client, without a terminal, ends its stderr with a line that names the limits of the "
	  "sandbox that were hit while it ran, also if it ended with 0" },
	{ "e2b_output_limit", "SIZE", CONFIG_BYTES, FIELD(e2b_output_limit), "256M", 4 * KIB, 64 * TIB, NULL,
	  "bytes of output of a process started by an E2B client that are kept until they are fetched, up to "
	  "output_limit_max" },
	{ "session_output_max", "SIZE", CONFIG_BYTES, FIELD(session_output_max), "1G", MIB, 64 * TIB, NULL,
	  "bytes in the logs of all executions of one session, and in the texts of its records; beyond it the logs "
	  "of those that ended first are removed, and if that is not enough new output is cut" },
	{ "executions_max", "COUNT", CONFIG_COUNT, FIELD(executions_max), "64", 1, 4096, NULL,
	  "executions that run at a time in one session" },
	{ "execution_records_max", "COUNT", CONFIG_COUNT, FIELD(execution_records_max), "100000", 1, MANY,
	  NULL, "executions of one session, ended ones included" },

	{ "tenant_max_sessions", "COUNT", CONFIG_COUNT, FIELD(tenant_max_sessions), "0", 0, 1000000, NULL,
	  "sessions at a time; 0: half of node_max_sessions, and 500 at least", .group = "Limits of a tenant that has none of its own" },
	{ "tenant_create_rate", "RATE", CONFIG_MILLIS, FIELD(tenant_create_rate_milli), "500", 0, MANY, NULL,
	  "sessions created per second in the long run; 0: no limit" },
	{ "tenant_create_burst", "COUNT", CONFIG_COUNT, FIELD(tenant_create_burst), "500", 1, 1000000, NULL,
	  "sessions created at once after a quiet time" },
	{ "tenant_queue_length", "COUNT", CONFIG_COUNT, FIELD(tenant_queue_length), "0", 0, 100000, NULL,
	  "requests for a session that wait when a limit is reached; 0: refused at once" },
	{ "tenant_queue_time", "TIME", CONFIG_TIME, FIELD(tenant_queue_ms), "10s", 1, HOUR, NULL,
	  "how long they wait" },
	{ "tenant_max_memory", "SIZE", CONFIG_BYTES, FIELD(tenant_max_memory), "0", 0, 64 * TIB, NULL,
	  "sum of the memory limits of its sessions; 0: no limit but the node's" },
	{ "tenant_max_storage", "SIZE", CONFIG_BYTES, FIELD(tenant_max_storage), "0", 0, 64 * TIB, NULL,
	  "sum of the disk limits of one tenant's sessions; 0: of those with storage disk half of the file system of "
	  "storage_dir, of others no limit but what cells really use, which node_memory_limit bounds" },
	{ "tenant_max_persistent", "COUNT", CONFIG_COUNT, FIELD(tenant_max_persistent), "1000", 0, 1000000, NULL,
	  "persistent sessions, and others that are paused without memory; 0: no limit" },
	{ "tenant_max_pids", "COUNT", CONFIG_COUNT, FIELD(tenant_max_pids), "0", 0, MANY, NULL,
	  "sum of the limits on processes of its sessions; 0: no limit but what cells really use, which "
	  "node_pids_limit bounds" },
	{ "tenant_max_output", "SIZE", CONFIG_BYTES, FIELD(tenant_max_output), "20G", 0, 64 * TIB, NULL,
	  "bytes in the logs of all its executions, those of ended sessions until their retention is over; beyond it "
	  "new output is cut; 0: no limit" },
	{ "tenant_max_records", "SIZE", CONFIG_BYTES, FIELD(tenant_max_records), "1G", 0, 64 * TIB, NULL,
	  "bytes that the records of its sessions and executions take, ended ones until their retention is over; "
	  "beyond it no session is made and nothing executed; 0: no limit" },
	{ "tenant_max_streams", "COUNT", CONFIG_COUNT, FIELD(tenant_max_streams), "2048", 0, 1000000, NULL,
	  "open streams at a time: followed output, events and network records, attached terminals, watched directories "
	  "and streams of E2B clients; 0: no limit but that of connections" },
	{ "tenant_max_stored", "SIZE", CONFIG_BYTES, FIELD(tenant_max_stored), "20G", 0, 64 * TIB, NULL,
	  "bytes that its snapshots, templates and paused sessions without memory take on disk, each layer counted once; "
	  "0: no limit but storage_reserve" },
	{ "tenant_max_keys", "COUNT", CONFIG_COUNT, FIELD(tenant_max_keys), "1000", 1, 1000000, NULL,
	  "keys that can be used at a time" },
	{ "tenant_max_volumes", "COUNT", CONFIG_COUNT, FIELD(tenant_max_volumes), "100", 0, 1000000, NULL,
	  "volumes; 0: none" },
	{ "tenant_max_volume_bytes", "SIZE", CONFIG_BYTES, FIELD(tenant_max_volume_bytes), "0", 0, 64 * TIB, NULL,
	  "sum of the sizes of its volumes; 0: half of the file system of storage_dir" },

	{ "build_max", "COUNT", CONFIG_COUNT, FIELD(build_max), "4", 1, 1000, NULL,
	  "builds of templates that a tenant may run at a time", .group = "Builds of templates" },
	{ "build_timeout", "TIME", CONFIG_TIME, FIELD(build_timeout_ms), "2h", SECOND, 7 * DAY, NULL,
	  "time that a build may take" },
	{ "build_disk", "SIZE", CONFIG_BYTES, FIELD(build_disk), "4G", 0, 64 * TIB, NULL,
	  "size of the disk that a step of a build writes to, in the storage folder; 0, or where there are no disks: in memory, "
	  "of the size of other sessions" },
	{ "build_network", "PRESET,...", CONFIG_TEXT, FIELD(build_network), "", 0, CONFIG_NAME_MAX - 1, NULL,
	  "network of the steps of builds: presets as of network_default, such as pypi,npm or internet; empty: that of "
	  "network_default. The policies of the node and of the tenant hold as well" },
	{ "build_networks", "PRESET,...", CONFIG_TEXT, FIELD(build_networks), "", 0, CONFIG_NAME_MAX - 1, NULL,
	  "presets that a build may ask for in place of build_network, such as pypi,npm,debian (cordon template build --network)" },
	{ "build_cache_max", "SIZE", CONFIG_BYTES, FIELD(build_cache_max), "20G", 0, 64 * TIB, NULL,
	  "size of the layers that are kept so that later builds need not run the same steps again; the oldest of the "
	  "tenant that has the most go first; 0: none are kept" },
	{ "upload_max", "SIZE", CONFIG_BYTES, FIELD(upload_max), "1G", 0, 64 * TIB, NULL,
	  "size of an archive that a client uploads for a build" },
	{ "tenant_uploads_max", "SIZE", CONFIG_BYTES, FIELD(tenant_uploads_max), "4G", 0, 64 * TIB, NULL,
	  "size of all archives that are kept of a tenant; the oldest go first" },
	{ "image_alias", "IMAGE=TEMPLATE,...", CONFIG_TEXT, FIELD(image_alias), "e2bdev/base=host", 0,
	  CONFIG_ALIASES_MAX - 1, NULL,
	  "images that builds take from a template of this server instead of a registry, with any tag" },

	{ "network_default", "PRESET,...", CONFIG_TEXT, FIELD(network_default), "deny", 1, CONFIG_NAME_MAX - 1, NULL,
	  "network of a session that does not set it: presets (see cordon policy presets), such as none, deny, "
	  "pypi,npm or internet", .group = "Network" },
	{ "egress_policy", "FILE", CONFIG_PATH, FIELD(egress_policy), "", 0, PATH_LONGEST, NULL,
	  "policy of the node, JSON: rules and ceilings for all sessions, and private addresses that may be "
	  "reached; empty: none" },
	{ "egress_user", "NAME", CONFIG_TEXT, FIELD(egress_user), "", 0, CONFIG_NAME_MAX - 1, NULL,
	  "user that cordon-egress runs as when root starts it; another one than user",
	  .shown = "cordon-net; where user is a number, the number after it" },
	{ "cache_user", "NAME", CONFIG_TEXT, FIELD(cache_user), "", 0, CONFIG_NAME_MAX - 1, NULL,
	  "user that cordon-cache runs as when root starts it; another one than user",
	  .shown = "cordon-cache, or egress_user where that does not exist; where user is a number, the second after it" },
	{ "notary_dir", "DIR", CONFIG_PATH, FIELD(notary_dir), "", 0, 200, NULL,
	  "directory for the keys of the audit log and what cordon-notary has signed; the user of cordond must be able to rename "
	  "neither it nor a directory above it",
	  .shown = "state_dir with -notary at its end where root starts the server, else notary in state_dir" },
	{ "notary_user", "NAME", CONFIG_TEXT, FIELD(notary_user), "", 0, CONFIG_NAME_MAX - 1, NULL,
	  "user that cordon-notary runs as when root starts it; another one than user",
	  .shown = "cordon-notary, or cache_user where that does not exist; where user is a number, the third after it" },
	{ "egress_ca", "FILE", CONFIG_PATH, FIELD(egress_ca), "", 0, PATH_LONGEST, NULL,
	  "authorities, PEM, that servers are verified by, beside those the machine trusts; empty: none" },

	{ "retention", "TIME", CONFIG_TIME, FIELD(retention_ms), "1d", 0, 3650 * DAY, NULL,
	  "how long records and output of a session are kept after its end",
	  .group = "What is kept and accepted" },
	{ "event_retention", "TIME", CONFIG_TIME, FIELD(event_retention_ms), "7d", 0, 3650 * DAY, NULL,
	  "how long events are kept" },
	{ "audit_retention", "TIME", CONFIG_TIME, FIELD(audit_retention_ms), "365d", 0, 3650 * DAY, NULL,
	  "how long records of the audit log are kept; their hashes stay; 0: for ever" },
	{ "audit_checkpoint", "TIME", CONFIG_TIME, FIELD(audit_checkpoint_ms), "10s", 100, HOUR, NULL,
	  "how soon new records of an audit log are covered by a signed checkpoint" },
	{ "audit_max", "SIZE", CONFIG_BYTES, FIELD(audit_max), "16G", 0, 64 * TIB, NULL,
	  "bytes of all records of audit logs; beyond it the oldest of the tenant that has most are deleted, and that is on record; 0: no limit" },
	{ "tenant_audit_max", "SIZE", CONFIG_BYTES, FIELD(tenant_audit_max), "4G", 0, 64 * TIB, NULL,
	  "bytes of the audit log of one tenant; beyond it its oldest records are deleted, and that is on record; 0: no limit" },
	{ "usage_retention", "TIME", CONFIG_TIME, FIELD(usage_retention_ms), "90d", HOUR, 3650 * DAY, NULL,
	  "how long the usage of tenants, by hour and label, is kept" },
	{ "event_max", "COUNT", CONFIG_COUNT, FIELD(event_max), "1000000", 1000, MANY, NULL,
	  "events that are kept at most, whatever their age; beyond it the oldest of the tenant that has most are removed" },
	{ "tenant_event_max", "COUNT", CONFIG_COUNT, FIELD(tenant_event_max), "250000", 100, MANY, NULL,
	  "events of one tenant that are kept at most; beyond it its oldest are removed" },
	{ "network_records_max", "COUNT", CONFIG_COUNT, FIELD(network_records_max), "2000000", 1000, MANY, NULL,
	  "records of what sessions tried to reach that are kept at most, in the same way; they are kept as long as events" },
	{ "tenant_network_records_max", "COUNT", CONFIG_COUNT, FIELD(tenant_network_records_max), "500000", 100, MANY,
	  NULL, "network records of one tenant that are kept at most" },
	{ "network_records_session_max", "COUNT", CONFIG_COUNT, FIELD(network_records_session_max), "100000", 100, MANY,
	  NULL, "network records of one session that are kept at most" },
	{ "file_max", "SIZE", CONFIG_BYTES, FIELD(file_max), "1G", 0, 64 * TIB, NULL,
	  "bytes of one file that is uploaded" },
	{ "request_body_max", "SIZE", CONFIG_BYTES, FIELD(request_body_max), "4M", 4 * KIB, GIB, NULL,
	  "bytes of any other request's body; only those with lockfiles may have more than 1M" },
	{ "tenant_bodies_max", "SIZE", CONFIG_BYTES, FIELD(tenant_bodies_max), "64M", 2 * MIB, 64 * TIB, NULL,
	  "bytes of one tenant's request bodies, of lists that are collected, and of results and files for MCP, in memory at a "
	  "time, other files aside; all tenants together have four times that" },
	{ "captured_secrets", "WHAT", CONFIG_CHOICE, FIELD(captured_secrets), "refuse", 0, 0, captured,
	  "whether snapshots and forks may have files with values of secrets that their session was given: refuse names the "
	  "file, name makes them and lists the files in the answer and in an event, allow does not look; sessions with these "
	  "files mask the values" },
	{ "redact", "NAME ...", CONFIG_TEXT, FIELD(redact), "", 0, 63, NULL,
	  "what else is covered with '*' in output, records and errors of all sessions, by its form: email, phone, card, iban, "
	  "ip, token (doc/secrets.md). Sessions may add to it" },
	{ "redact_patterns", "PATTERN ...", CONFIG_TEXT, FIELD(redact_patterns), "", 0, 1023, NULL,
	  "what is covered with '*' in output, records and errors of all sessions, as their secrets are: patterns "
	  "of bytes, [sets] and {n,m}, with blanks between them, such as sk-[A-Za-z0-9]{20,64}; each must match 4 "
	  "bytes at least and 256 at most" },
	{ "refused_calls", "yes|no", CONFIG_BOOL, FIELD(refused_calls), "yes", 0, 0, NULL,
	  "counts the refused system calls of sessions at level container, which takes a process of about 0.1 MiB for each; no: the "
	  "alarms refused_calls and escape_attempt are never raised" },
	{ "alarms", "KIND=ACTION,...", CONFIG_TEXT, FIELD(alarms), "", 0, 255, NULL,
	  "what alarms of all sessions do: none, pause or end, such as escape_attempt=end,fork_burst=pause; a session's own rules "
	  "cannot weaken it; doc/traces.md has the kinds" },
};
/* clang-format on */

const size_t config_table_size = COUNT(config_table);
static_assert(COUNT(config_table) <= CONFIG_SETTINGS_MAX, "the bitmap of those seen");

const struct config_setting *config_table_find(const char *name, size_t n)
{
	for (size_t i = 0; i < config_table_size; i++)
		if (strlen(config_table[i].name) == n && memcmp(config_table[i].name, name, n) == 0)
			return &config_table[i];
	return NULL;
}

/* An alias wins over a name. */
const struct config_setting *config_table_find_flag(const char *name, size_t n)
{
	char plain[48];

	if (n >= sizeof(plain))
		return NULL;
	for (size_t i = 0; i < n; i++)
		plain[i] = (char)(name[i] == '-' ? '_' : name[i]);
	for (size_t i = 0; i < config_table_size; i++) {
		const char *alias = config_table[i].alias;

		if (alias != NULL && strlen(alias) == n && memcmp(alias, plain, n) == 0)
			return &config_table[i];
	}
	return config_table_find(plain, n);
}
