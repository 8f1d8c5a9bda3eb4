/* engine.h - the interface of an engine: what runs the guest inside the cell (runsc, QEMU). Called
 * by the shim (guest_life.c), in its one loop. engine_gvisor.c and engine_qemu.c implement it, and
 * a test program has a fake one.
 *
 * Order of calls: new(), start(), then any of stop(), snapshot(), go_on(), one at a time, then
 * free(), at any moment. start, stop, snapshot and go_on only begin an operation: it ends exactly
 * once, with completion_end(&call->done, ...), from a later callback of the loop or in the call
 * itself (completion.h delivers it later). The caller sets no deadline on it: it calls free() when
 * an operation takes too long. After free() no callback of the engine comes, and calls that did not
 * end are cancelled by the shim.
 *
 * 	new --start--> running --stop--> stopped --go_on--> running
 * 	        |                          |  ^
 * 	        +------- (RESTORE) --------+  +-- snapshot
 *
 * An engine does not know the protocol that shim and guest speak: it provides one byte stream. It
 * assumes that its guest is hostile, and that the shim's arguments are right. It blocks nowhere:
 * long work (copying memory) is done in pieces, from timers or ready descriptors, so that channel B
 * is served in between. Processes that it starts must die with the cell. PID 1's end does that. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

#include "lib/loop/completion.h"
#include "lib/wire/boot_msg.h"

struct engine;

/* One operation. The shim owns it. It stays at its address until it has ended or free() is called.
 */
struct engine_call {
	struct completion done; /* err: as text for logs, the errno in it is sent as sys */
	enum boot_stage stage;	/* set by the engine before it ends the call with an error */
	uint64_t changes_max;	/* snapshot: so many bytes of changed pages will do */
	/* Results, of a call that worked. The shim owns them then.
	 * start: fds[0] is the shim's end of the stream: a stream socket, non-blocking,
	 * close-on-exec. snapshot: fds[0] the memory, fds[1] the devices: memory files with all of
	 * F_SEAL_WRITE, _SHRINK, _GROW and _SEAL. */
	int fds[2];
	bool only_changes;     /* snapshot: the memory has the changed pages only */
	enum boot_accel accel; /* start */
};

/* The shim gives this to an engine. */
struct engine_host {
	struct loop *loop;
	/* For stdout and stderr of the engine's processes and for the guest's console: the write
	 * end of a pipe that the shim always empties. It keeps the last BOOT_TEXT_MAX bytes.
	 * Borrowed. */
	int console;
	/* The engine's process ended by itself (BOOT_GUEST_EXITED), or it reports that the guest's
	 * kernel did (BOOT_GUEST_PANICKED). At most once. An operation that waits is ended with an
	 * error before or instead. The shim calls free() later. why: for the log. */
	void (*on_gone)(const struct engine_host *h, enum boot_guest state, const char *why);
	void *arg; /* the shim's */
};

struct engine_ops {
	const char *name;
	bool can_snapshot; /* it has stop, snapshot and go_on, else these are NULL */
	/* The guest's sockets are sockets of the cell's network (gVisor with the host's network):
	 * the shim connects to ports itself. Else connections go through the stream. */
	bool shares_network;

	/* host outlives the engine. NULL: no memory. */
	struct engine *(*new)(const struct engine_host *host);

	/* Start the engine's processes. r and fds (boot_fds_index()) are valid during the call
	 * only. The engine copies descriptors for a longer use. Ends when the guest runs or begins
	 * to boot. With BOOT_RESTORE when its state is loaded, and it is stopped then. */
	void (*start)(struct engine *g, const struct boot_request *r, const int *fds,
		      struct engine_call *c);
	void (*stop)(struct engine *g, struct engine_call *c);
	void (*go_on)(struct engine *g, struct engine_call *c);
	/* The guest is stopped, before and after. */
	void (*snapshot)(struct engine *g, struct engine_call *c);

	/* PID 1 has reaped this child. True if it is one of the engine's. */
	bool (*on_exit)(struct engine *g, pid_t pid, int status);

	/* Kill what runs, without waiting for it, and free all. */
	void (*free)(struct engine *g);
};

/* By the `engine` of a BOOT. NULL: this shim has no such engine. */
const struct engine_ops *engine_find(enum boot_engine engine);

extern const struct engine_ops engine_gvisor, engine_qemu;
