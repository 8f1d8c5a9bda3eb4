/* serve.h - cordon serve: prepares the server's folders, keys and descriptors, then starts and
 * restarts its processes. */
#pragma once

#include <limits.h>
#include <sys/types.h>

#include "cell/cellctl/cgroups.h"
#include "cell/cellctl/keeper_client.h"
#include "cell/template/template.h"
#include "cmd/base/level_machine.h"
#include "cmd/base/options.h"
#include "lib/config/config.h"
#include "lib/wire/supervisor_msg.h"

extern const struct verb serve_verb;

/* Everything found or opened once, and given to each cordond and keeper. */
struct serve {
	struct config config;
	struct serve_setup setup;
	uid_t uid; /* cordond runs as these */
	gid_t gid;
	uid_t egress_uid; /* and cordon-egress as these */
	gid_t egress_gid;
	uid_t cache_uid; /* and cordon-cache as these */
	gid_t cache_gid;
	uid_t notary_uid; /* and cordon-notary as these */
	gid_t notary_gid;
	bool root;
	int lock_fd;
	int config_fd, setup_fd, cert_fd, key_fd, secrets_fd;
	int storage_fd;		  /* owned: storage_dir */
	int cache_fd;		  /* owned: the folder of cordon-cache. -1: there is none */
	int notary_fd;		  /* owned: the folder of cordon-notary. -1: there is none */
	int authority_fd;	  /* the node's, that cells trust: read-only */
	struct node_ca authority; /* the same. Its descriptor is authority_fd */
	int certificate_fd;	  /* of it, for cordon-storage: storage/op_arrange.c */
	int listeners[SERVE_LISTENERS_MAX];
	struct cgroups cgroups;
	struct level_machine levels;
	struct template template;
	struct keeper_root roots[CELL_ROOTS_MAX];
	unsigned nroots;
	int userns;  /* rootless: the user namespace of all its keepers. -1: none yet */
	char **argv; /* to start itself again */
};

/* serve_prepare.c: open and make all of it. On failure the process ends, which closes it. */
int serve_prepare(struct serve *s, struct err *e) MUST_USE;

/* For the root image of the template "host" as the machine is now: struct serve_host. Read all
 * directories of /usr. */
uint64_t serve_host_size(const struct serve *s);
/* For each cordond that starts from now on: s->setup as it is. */
int serve_write_setup(struct serve *s, struct err *e) MUST_USE;

/* Check the names of the setting `levels`. */
int serve_levels_check(const struct serve *s, struct err *e) MUST_USE;

/* serve.c: replace settings of 0 that follow the machine by their numbers. */
void serve_defaults(struct config *c);

/* serve_listen.c: the sockets: passed by systemd or by this program before an upgrade, else made.
 * Complete the domain, too, which may need their port. */
int serve_listen(struct serve *s, struct err *e) MUST_USE;

/* Read and check the operator's certificate and key, if there are any. */
int serve_tls(struct serve *s, struct err *e) MUST_USE;
/* Log which authority clients must trust, if the server made its certificate. */
void serve_tls_log(const struct serve *s);

/* roles.c: check that the files in its settings can be read. Otherwise cordon-egress would end at
 * each start. */
int role_egress_check(const struct serve *s, struct err *e) MUST_USE;

/* serve_own_folder.c: open the folders of cordon-cache and cordon-notary, as far as they can be. */
void serve_own_folders(struct serve *s);
/* serve_prepare.c: have cordond check network_default and egress_policy. */
int serve_network(const struct serve *s, struct err *e) MUST_USE;

/* Read the keys of secrets, or make one if the operator has set none. The second function checks
 * the given ones. */
int serve_secrets(struct serve *s, struct err *e) MUST_USE;
int serve_secrets_check(const struct serve *s, struct err *e) MUST_USE;

/* serve.c: whether the program on disk, started with the same arguments, would accept
 * its settings and files now. SIGHUP does not end a server whose successor could not start. */
int serve_upgrade_check(const struct serve *s, struct err *e) MUST_USE;

/* serve.c: run a program installed beside this one to check something. If it
 * does not exit with 0, the last line of its standard error is the error. */
struct serve_precheck {
	const char *name; /* of the program */
	const char *what; /* what it does, for messages */
	int in;		  /* borrowed: its standard input, for on_child */
	/* In the child. Does not return. */
	void (*on_child)(const struct serve *s, const struct serve_precheck *q);
	/* set by serve_precheck_run(), for on_child(): */
	char path[PATH_MAX];
	int program, stderr_fd;
};
int serve_precheck_run(const struct serve *s, struct serve_precheck *q, struct err *e) MUST_USE;
/* For a child that parses files: executes the program as user 65534, without rights. */
void serve_precheck_exec(const struct serve_precheck *q, int program, char **argv) NORETURN;

/* supervisor.c: runs all processes until a signal ends it. Return the exit code. */
int supervisor_run(struct serve *s);
