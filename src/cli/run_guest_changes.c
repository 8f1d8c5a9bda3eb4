/* run_guest_changes.c - what the command changed in a virtual machine. No keeper sees the files of
 * the guest: its agent lists them by the built-in diff, in the keeper's form. Called when every
 * program of the guest is dead. The list is the guest's, and not believed: it is bounded in size
 * and time, and diff_print() checks its form. */
#include <errno.h>
#include <poll.h>
#include <sys/mman.h>
#include <unistd.h>

#include "clock.h"
#include "diff_print.h"
#include "io.h"
#include "run_private.h"

#define LIST_HANDLE (RUN_HANDLE + 1)
#define LIST_MS 300000U
#define LIST_MAX (256U << 20)
#define EVENTS_MAX 64 /* before the answer, of programs that were killed */

static int start(struct run *r, struct agent_event *ret_started, struct err *e)
{
	static const char name[] = "diff";
	const struct agent_spawn how = { .handle = LIST_HANDLE,
					 .flags = AGENT_BUILTIN,
					 .user = "root",
					 .cwd = "/",
					 .argc = 1,
					 .strings = name,
					 .strings_len = sizeof(name) };
	enum agent_type type = AGENT_READY;

	if (agent_send_spawn(&r->agent, &how, e) < 0)
		return -1;
	for (int i = 0; i < EVENTS_MAX; i++) {
		if (run_command_receive(r, &type, ret_started, e) < 0 ||
		    (type == AGENT_GUEST && run_guest_event(r, ret_started, e) < 0))
			return -1;
		if (type == AGENT_STARTED && ret_started->handle == LIST_HANDLE)
			return 0;
		if (type != AGENT_FAILED || ret_started->handle != LIST_HANDLE)
			continue;
		errno = ret_started->sys;
		return err_sys(e, "the guest's agent");
	}
	return err_set(e, ERR_INVALID,
		       "internal protocol error: the guest's agent does not answer");
}

static int copy(int from, int to, struct err *e)
{
	const uint64_t end_ns = clock_now_ns() + LIST_MS * CLOCK_MS;
	char block[16384];
	uint64_t total = 0;

	for (;;) {
		struct pollfd p = { .fd = from, .events = POLLIN };
		uint64_t now_ns = clock_now_ns();
		ssize_t n;

		if (now_ns >= end_ns)
			return err_set(e, ERR_SYSTEM, "the guest does not list its changes");
		if (poll(&p, 1, (int)((end_ns - now_ns) / CLOCK_MS) + 1) <= 0)
			continue;
		n = read(from, block, sizeof(block));
		if (n == 0)
			return 0;
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			continue;
		if (n < 0)
			return err_sys(e, "read the guest's list of changes");
		total += (uint64_t)n;
		if (total > LIST_MAX)
			return err_set(e, ERR_LIMIT, "more changes than %u MiB of names",
				       LIST_MAX >> 20);
		if (io_write_all(to, block, (size_t)n, e) < 0)
			return -1;
	}
}

int run_guest_changes(struct run *r, struct err *e)
{
	OWN_FD list = memfd_create("changes", MFD_CLOEXEC);
	struct agent_event started;
	int in = -1, outs[2] = { -1, -1 };

	if (list < 0)
		return err_sys(e, "memory file");
	if (start(r, &started, e) < 0)
		return -1;
	agent_take_stdio(&r->agent, &started, &in, outs, COUNT(outs));
	OWN_FD from = outs[0];
	io_close_all(&in, 1);
	io_close_all(&outs[1], 1);
	if (from < 0)
		return err_set(e, ERR_INVALID, "the guest sent no pipes");
	if (copy(from, list, e) < 0)
		return -1;
	if (lseek(list, 0, SEEK_SET) < 0)
		return err_sys(e, "memory file");
	return diff_print(list, stdout, e);
}
