/* serve.h - cordon serve: prepares what the server needs, then starts and restarts its
 * processes. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "cgroups.h"
#include "config.h"
#include "keeper_client.h"
#include "level_machine.h"
#include "options.h"
#include "supervisor_msg.h"
#include "template.h"

extern const struct verb serve_verb;

/* Everything that is found or opened once, and given to each cordond and keeper. */
struct serve {
	struct config config;
	struct serve_setup setup;
	uid_t uid; /* cordond runs as these */
	gid_t gid;
	uid_t egress_uid; /* and cordon-egress as these */
	gid_t egress_gid;
	uid_t cache_uid; /* and cordon-cache as these */
	gid_t cache_gid;
	bool root;
	int lock_fd;
	int config_fd, setup_fd, cert_fd, key_fd, secrets_fd;
	int storage_fd;		  /* owned: storage_dir */
	int cache_fd;		  /* owned: the folder of cordon-cache; -1: there is none */
	int authority_fd;	  /* the node's, that cells trust: read-only */
	struct node_ca authority; /* the same; its descriptor is authority_fd */
	int certificate_fd;	  /* of it, for cordon-storage: storage/arrange.h */
	int listeners[SERVE_LISTENERS_MAX];
	struct cgroups cgroups;
	struct level_machine levels;
	struct template template;
	struct keeper_root roots[CELL_ROOTS_MAX];
	unsigned nroots;
	int userns;  /* rootless: the user namespace of all its keepers; -1: none yet */
	char **argv; /* to start itself again */
};

/* serve_prepare.c: opens and makes all of it. On failure the process ends, which closes it. */
int serve_prepare(struct serve *s, struct err *e) MUST_USE;

/* serve_levels.c: which levels sessions can have, and the files that their engines need. */
int serve_levels(struct serve *s, struct err *e) MUST_USE;
/* Checks the names of the setting `levels`. */
int serve_levels_check(const struct serve *s, struct err *e) MUST_USE;

/* serve_cache.c: opens the folder of cordon-cache. It may be missing: then the log says why. */
void serve_cache(struct serve *s);

/* serve_defaults.c: replaces settings of 0 that follow the machine by their numbers. */
void serve_defaults(struct config *c);

/* serve_folder_check.c: checks that the user of cordond can enter and write the folder. */
int serve_folder_check(const struct serve *s, const char *name, const char *path,
		       struct err *e) MUST_USE;

/* serve_listen.c: the sockets: passed by systemd or by this program before an upgrade, else made.
 * Completes the domain, too, which may need their port. */
int serve_listen(struct serve *s, struct err *e) MUST_USE;

/* serve_tls.c: reads and checks the operator's certificate and key, if there are any. */
int serve_tls(struct serve *s, struct err *e) MUST_USE;
/* serve_tls.c: logs which authority clients must trust, if the certificate is made by the server.
 */
void serve_tls_log(const struct serve *s);

/* role_egress.c: checks that the files that its settings name can be read: otherwise cordon-egress
 * would end at each start. */
int role_egress_check(const struct serve *s, struct err *e) MUST_USE;

/* serve_network.c: has cordond check network_default and egress_policy. */
int serve_network(const struct serve *s, struct err *e) MUST_USE;

/* serve_secrets.c: reads the keys of secrets, or makes one if the operator has set none. The second
 * checks those that are set. */
int serve_secrets(struct serve *s, struct err *e) MUST_USE;
int serve_secrets_check(const struct serve *s, struct err *e) MUST_USE;

/* serve_upgrade_check.c: whether the program on disk, started with the same arguments, would accept
 * its settings and files now. SIGHUP does not end a server whose successor could not start. */
int serve_upgrade_check(const struct serve *s, struct err *e) MUST_USE;

/* serve_precheck.c: runs a program that was installed beside this one to check something. If it
 * does not exit with 0, the last line of its standard error is the error. */
struct serve_precheck {
	const char *name; /* of the program */
	const char *what; /* what it does, for messages */
	int in;		  /* borrowed: its standard input, for become */
	/* In the child; does not return. */
	void (*become)(const struct serve *s, const struct serve_precheck *q);
	/* set by serve_precheck_run(), for become: */
	char path[PATH_MAX];
	int program, stderr_fd;
};
int serve_precheck_run(const struct serve *s, struct serve_precheck *q, struct err *e) MUST_USE;
/* For a child that parses files: executes the program as user 65534, without rights. */
void serve_precheck_exec(const struct serve_precheck *q, int program, char **argv) NORETURN;

/* supervisor.c: runs all processes until a signal ends it. Returns the exit code. */
int supervisor_run(struct serve *s);
