/* config.h - the server's settings: one file, environment and flags, checked against one table.
 *
 *	file          memory_max = 4G          # a comment
 *	environment   CORDON_MEMORY_MAX=4G
 *	flag          --memory-max 4G          or --memory_max=4G
 *
 * A flag wins over the environment, the environment over the file, the file over the default. Every
 * setting is described in doc/configuration.md, made from the same table. An error names where the
 * value came from, the setting, the value and what would be right:
 *
 *	cordon.conf:7: memory_max: '12Q' is not a size like 65536, 512M or 1.5G */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/base/session_id.h"

#define CONFIG_PATH_MAX 256
#define CONFIG_NAME_MAX 64
/* With "65535-", the longest session id and "." in front of it, it is still a DNS name: 253. */
#define CONFIG_DOMAIN_MAX (253 - 6 - (SESSION_ID_MAX - 1) - 1 + 1)
#define CONFIG_ROOTS_MAX 8
#define CONFIG_FILE_MAX 65536 /* bytes of a configuration file */
#define CONFIG_TEXT_MAX 16384 /* bytes of what config_print() writes, at most */

struct config_root {
	char path[CONFIG_PATH_MAX];
	bool writable;
};

enum config_captured { CAPTURED_REFUSE, CAPTURED_NAME, CAPTURED_ALLOW, CONFIG_CAPTURED_CHOICES };

enum config_metrics {
	CONFIG_METRICS_KEY,
	CONFIG_METRICS_LOCAL,
	CONFIG_METRICS_OPEN,
	CONFIG_METRICS_CHOICES
};

/* Sizes are in bytes, times in milliseconds, fractions in thousandths (_milli). Where 0 has a
 * special meaning the comment says so. "default": for a session that does not set it. "max": the
 * bound for sessions. config_table.c describes every setting. */
#define CONFIG_ALIASES_MAX 1024

struct config {
	/* where it listens */
	char listen[128]; /* HOST:PORT, [IPv6]:PORT. "": no TCP */
	bool allow_remote_plain;
	char domain[CONFIG_DOMAIN_MAX];	     /* NAME or NAME:PORT. "": cordon serve sets it */
	char levels[128];		     /* names, with commas */
	char node_name[SESSION_ID_NODE_MAX]; /* in the ids of its sessions */
	char secrets_key_file[CONFIG_PATH_MAX];
	char tls_cert[CONFIG_PATH_MAX], tls_key[CONFIG_PATH_MAX]; /* both or none */
	bool tls_local;			   /* instead of those: a certificate made here */
	char unix_socket[CONFIG_PATH_MAX]; /* "": none */
	uint64_t connections_max, unkeyed_per_address;
	uint64_t head_timeout_ms, body_timeout_ms, write_timeout_ms, keepalive_ms;

	/* files, user, log */
	char state_dir[CONFIG_PATH_MAX], run_dir[CONFIG_PATH_MAX];
	char user[CONFIG_NAME_MAX]; /* cordond runs as this user, if root starts it */
	unsigned log_format;	    /* enum log_format */
	unsigned log_level;	    /* enum log_level */
	unsigned metrics;	    /* enum config_metrics */

	/* what sessions are made from */
	char template[CONFIG_NAME_MAX];
	char template_dir[CONFIG_PATH_MAX]; /* "": templates in state_dir */
	char storage_dir[CONFIG_PATH_MAX];  /* "": storage in state_dir */
	char runsc[CONFIG_PATH_MAX];	    /* "": the machine's, see cell/cellctl/runsc.h */
	char registries[1024];		    /* that images may be pulled from, see image_pull.h */
	char image_mirror[512];		    /* HOST=URL,.... "": none */
	uint64_t package_cache_size;	    /* 0: no cache */
	uint64_t storage_reserve;	    /* percent of its file system that stay free */
	struct config_root mount_roots[CONFIG_ROOTS_MAX];
	size_t nmount_roots;
	bool mount_unsafe_roots;
	uint64_t pool_size, pool_max;
	uint64_t pool_refill_milli; /* cells per second */
	uint64_t pool_started_size, pool_started_keep_ms;

	/* the node as a whole */
	uint64_t node_max_sessions;	 /* 0: by the machine, see serve.c */
	uint64_t node_max_memory;	 /* sum of memory limits. 0: no bound */
	uint64_t node_memory_limit;	 /* of all cells together. 0: a share of the machine's */
	uint64_t node_pids_limit;	 /* the same, of processes and threads */
	bool best_effort;		 /* cells although some limits cannot be enforced */
	uint64_t node_create_rate_milli; /* sessions per second. 0: no limit */
	uint64_t keepers;	   /* processes that make cells. 0: by the machine, see the table */
	uint64_t egress_processes; /* of cordon-egress. 0: by the machine, see the table */
	uint64_t keeper_timeout_ms, egress_timeout_ms; /* without an answer */

	/* a session */
	uint64_t memory_default, memory_max;
	uint64_t cpus_default_milli, cpus_max_milli;
	uint64_t pids_default, pids_max;
	uint64_t disk_default, disk_max;
	uint64_t storage_disk_default, storage_disk_max;
	uint64_t guest_root_max;
	uint64_t persist_idle_ms, persist_keep_default_ms, persist_keep_max_ms;
	uint64_t cold_keep_ms, pause_keep_ms, snapshot_keep_ms; /* 0: until it is removed */
	uint64_t tenant_max_persistent;				/* 0: no limit */
	uint64_t inodes_default, inodes_max;
	uint64_t nofile_default, nofile_max;
	uint64_t session_timeout_default_ms, session_timeout_max_ms;
	uint64_t idle_timeout_default_ms; /* 0: never */
	uint64_t unattended_timeout_ms;	  /* 0: never */

	/* an execution */
	uint64_t exec_timeout_default_ms, exec_timeout_max_ms; /* 0: none but the session's */
	uint64_t output_limit_default, output_limit_max;
	bool e2b_refusals, e2b_limits;	/* on stderr */
	uint64_t e2b_output_limit;	/* output_limit_max is the bound, if lower */
	uint64_t session_output_max;	/* bytes in logs of one session */
	uint64_t executions_max;	/* running at a time in one session */
	uint64_t execution_records_max; /* records of one session */

	/* a tenant without limits of its own */
	uint64_t tenant_max_sessions;
	uint64_t tenant_create_rate_milli; /* sessions per second. 0: no limit */
	uint64_t tenant_create_burst;
	uint64_t tenant_queue_length; /* 0: refuse at once */
	uint64_t tenant_queue_ms;
	uint64_t tenant_max_memory;			/* 0: no limit but the node's */
	uint64_t tenant_max_storage;			/* 0: no limit */
	uint64_t tenant_max_output, tenant_max_records; /* bytes. 0: no limit */
	uint64_t tenant_max_pids;			/* 0: no limit but the node's */
	uint64_t tenant_max_keys;
	uint64_t tenant_max_volumes, tenant_max_volume_bytes;
	uint64_t volume_size_default, volume_size_max;
	uint64_t tenant_max_streams;
	uint64_t tenant_max_stored; /* bytes of layers. 0: no limit */

	/* network of sessions */
	char cache_user[CONFIG_NAME_MAX];    /* cordon-cache runs as this one. "": see the table */
	char notary_dir[CONFIG_PATH_MAX];    /* "": see the table */
	char notary_user[CONFIG_NAME_MAX];   /* cordon-notary runs as this one. "": see the table */
	char egress_user[CONFIG_NAME_MAX];   /* cordon-egress runs as this one. "": see the table */
	char egress_ca[CONFIG_PATH_MAX];     /* further authorities of servers. "": none */
	char egress_policy[CONFIG_PATH_MAX]; /* the node's layer. "": none */
	char network_default[CONFIG_NAME_MAX]; /* of sessions that do not set it: presets */

	/* what is kept and accepted */
	uint64_t retention_ms;	     /* records of ended sessions */
	uint64_t event_retention_ms; /* and never more events than event_max */
	uint64_t usage_retention_ms;
	uint64_t audit_checkpoint_ms;
	uint64_t audit_retention_ms;	      /* 0: forever */
	uint64_t audit_max, tenant_audit_max; /* bytes. 0: no limit */
	uint64_t event_max, tenant_event_max, tenant_network_records_max;
	uint64_t network_records_max, network_records_session_max;
	uint64_t file_max;
	uint64_t build_max, build_timeout_ms; /* of a tenant at a time. Of one */
	uint64_t build_disk;		      /* of a step. 0: in memory */
	uint64_t build_cache_max, upload_max, tenant_uploads_max;
	char build_network[CONFIG_NAME_MAX];  /* of builds: presets. "": as other sessions */
	char build_networks[CONFIG_NAME_MAX]; /* presets that builds may ask for. "": none */
	char image_alias[CONFIG_ALIASES_MAX]; /* IMAGE=TEMPLATE,... */
	uint64_t request_body_max, tenant_bodies_max;
	unsigned captured_secrets; /* enum config_captured */
	bool refused_calls;
	char alarms[256];	    /* of alarm_rules.h */
	char redact[64];	    /* names of mask.h, with blanks between them */
	char redact_patterns[1024]; /* of mask.h, with blanks between them */
};

/* The user that starts the server: defaults depend on it. Texts are borrowed and may be NULL. */
struct config_starter {
	bool root;
	const char *home, *runtime_dir, *state_home, *config_home; /* $HOME, $XDG_... */
};

/* The calling process: its environment (as main() has it) and effective user id. */
void config_starter_find(struct config_starter *ret, char *const *env);

/* The defaults. A directory for which there is none (no home directory, a path too long) is "". */
void config_defaults(struct config *ret, const struct config_starter *starter);

/* Read all settings and check them: defaults, file, environment, flags, in this order. path NULL:
 * the file that $CORDON_CONFIG names, else /etc/cordon/cordon.conf or, for a user,
 * ~/.config/cordon/cordon.conf if it is there. argv holds settings only, see config_flag_words().
 * *ret is written on success only. */
int config_load(struct config *ret, const char *path, int argc, char *const *argv, char *const *env,
		struct err *e) MUST_USE;

/* How many arguments the flag `word` takes, if `next` (or NULL) follows: 0 if it is no setting. 1
 * for
 * "--name=value", and for "--name" of a boolean that yes or no does not follow. 2 for "--name
 * value". So a verb can have other options beside the settings. */
int config_flag_words(const char *word, const char *next);

/* The first variable CORDON_... of the environment that names neither a setting nor a word in
 * `known` (a list that ends with NULL, or NULL). NULL if there is none. For a warning: other
 * programs may use the prefix. */
const char *config_unknown_env(char *const *env, const char *const *known);

/* Read the lines of a file into *c, changed even on failure. Does not compare settings with each
 * other: config_check() does. Pure. */
int config_parse(struct config *c, const char *name, const char *text, size_t len,
		 struct err *e) MUST_USE;

/* Checks that concern several settings: defaults above maxima, a certificate without a key, a
 * listener without TLS that other machines can reach. */
int config_check(const struct config *c, struct err *e) MUST_USE;

/* TCP connections are encrypted. */
bool config_has_tls(const struct config *c);

/* Write all settings as a configuration file. Reading it gives the same struct. config_print()
 * returns the length. */
int config_print(const struct config *c, char *ret_text, size_t cap, struct err *e) MUST_USE;
int config_write(const struct config *c, int fd, struct err *e) MUST_USE;

/* Read and check what config_write() wrote to a file or memfd, from its start. */
int config_read_fd(struct config *ret, int fd, struct err *e) MUST_USE;
