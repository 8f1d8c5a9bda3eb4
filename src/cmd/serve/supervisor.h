/* supervisor.h - the processes that cordon serve keeps running, as a table of roles.
 *
 * A role is one program: the number of its copies, their user, their arguments and their needs. A
 * worker is one running copy. supervisor.c starts, watches, replaces and ends workers by the table
 * alone. The start functions of the roles are in roles.c. A new program is a new row and a start
 * function there.
 *
 * The table's order is the order of starting. cordond is the one role with a fixed place
 * (v->daemon), because the supervisor reads its messages. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cmd/base/child_process.h"
#include "cmd/serve/serve.h"

/* Workers of all roles together. Slots of one role are bytes in supervisor_msg.h. */
#define SUPERVISOR_WORKERS_MAX 64

struct supervisor;
struct worker;

/* The user of a program when root starts the server. Otherwise all run as the user that started the
 * server. */
enum role_user {
	ROLE_PRIVILEGED,  /* the supervisor's own. The program confines itself */
	ROLE_SERVER_USER, /* setting user */
	ROLE_EGRESS_USER, /* setting egress_user */
	ROLE_CACHE_USER,  /* setting cache_user */
	ROLE_NOTARY_USER, /* setting notary_user */
};

struct role {
	const char *program; /* installed beside cordon. Its name in the log, too */
	enum role_user user;
	bool has_control; /* gets a control socket. It ends when that socket closes */
	/* Started only while cordond has its control socket. It ends with cordond by itself. */
	bool needs_daemon;
	char hung; /* the message of cordond that asks for another one. 0: none */
	unsigned (*count)(const struct serve *s);
	/* Whether it can be started now, asked again soon if not. NULL: always. */
	bool (*can_start)(const struct supervisor *v, const struct worker *w);
	/* Set w->child.pid. control is borrowed: the program's end. -1 if it has none. */
	int (*start)(struct supervisor *v, struct worker *w, int control, struct err *e);
	/* Both this one and cordond run, and one of the two is new. NULL: nothing to do. */
	int (*join)(struct supervisor *v, struct worker *w, struct err *e);
	/* Called whenever the supervisor wakes up while it runs. Return when it wants to be called
	 * again at the latest (UINT64_MAX: whenever). NULL: never. */
	uint64_t (*look)(struct supervisor *v, struct worker *w);
};

/* roles.c. Row 0 is cordond. */
extern const struct role supervisor_roles[];
extern const unsigned supervisor_nroles;

struct worker {
	const struct role *role;
	unsigned slot; /* among those of its role, from 0 */
	struct child_process child;
	int control;	   /* owned: the supervisor's end. -1 */
	bool ended_before; /* a process of it has ended, under this supervisor */
	bool is_joined;	   /* role->join was called for this process and the present cordond */
	uint64_t look_ns;
	struct file_stamp {
		uint64_t device, file;
		int64_t size, s, ns;
	} stamps[2]; /* cordon-egress, cordon-pull: resolv.conf and hosts when it was given them */
	struct file_stamp list; /* cordon-egress: the list of advisories that it was given */
	uint64_t list_ns;
};

struct supervisor {
	struct serve *s;
	struct worker workers[SUPERVISOR_WORKERS_MAX];
	unsigned nworkers;
	struct worker *daemon; /* workers[0] */
	int signals;	       /* owned */
	bool ending, upgrading, ready;
	struct {
		uint64_t stamp, seen, look_ns; /* of the present template, and at the last look */
		pid_t measures;		       /* a child that looks for the size. 0: none */
		int size;		       /* owned while there is one: it writes it here */
		uint64_t late_ns;	       /* when it is given up */
		bool tell;		       /* cordond, of a new one */
	} host;				       /* template "host": roles.c */
	bool failed;	   /* a program could not start at all: the server ends */
	bool daemon_ended; /* while ending: the others are next */
	uint64_t end_ns;
};

/* The user and group of a role's program. */
struct role_identity {
	bool drop; /* false: stays the supervisor's */
	uid_t uid;
	gid_t gid;
};

/* Give cordond the other end of a channel to a worker: word is SERVE_KEEPER and the like. */
int supervisor_give(struct supervisor *v, const struct worker *w, char word, int channel,
		    struct err *e) MUST_USE;
