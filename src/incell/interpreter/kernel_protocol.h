/* kernel_protocol.h - the messages between the server and a kernel. Pure. User code may have taken
 * the kernel over, so that it may write anything.
 *
 * A kernel is a process that keeps the state of one context: the leader of a session, with
 * /dev/null at descriptor 0, pipes to the server at 1 and 2 (output of child programs and of native
 * code), and a socket at 3. There each side writes JSON objects, one on each line, in ASCII.
 *
 * Server to kernel:
 *
 *	{"op":"env","env":{"A":"1"}}	the session's environment, once or more often
 *	{"op":"execute","id":7,"code":"...","env":{"B":"2"},"silent":false}
 *	{"op":"interrupt"}		followed by SIGINT to the process group
 *
 * env of execute holds for this code only. Kernel to server:
 *
 *	{"type":"ready"}				once, when it can run code
 *	{"type":"count","execution_count":1}		then, for each execute, first this
 *	{"type":"stdout","text":"..."}			and "stderr", any number of times
 *	{"type":"result","is_main_result":true,"text":"...","png":"..."}
 *	{"type":"error","name":"...","value":"...","traceback":"..."}
 *	{"type":"done","id":7}				last
 *
 * A line has at most KERNEL_LINE_MAX bytes. Others, and types not listed, are dropped. The kernel
 * ends when the socket does.
 *
 * The parent of Python kernels (python_parent.c) runs no user code. Its socket takes
 * {"op":"spawn","cwd":"/home/user"} with three descriptors, which become 3, 1 and 2 of a child, and
 * it answers, in order, {"type":"spawned","pid":9} or {"type":"failed","message":"..."}. */
#pragma once

#include "lib/json/json_read.h"

#define KERNEL_LINE_MAX (32U << 20)

enum kernel_message_type {
	KERNEL_MESSAGE_OTHER, /* to be dropped */
	KERNEL_MESSAGE_READY,
	KERNEL_MESSAGE_COUNT,
	KERNEL_MESSAGE_STDOUT,
	KERNEL_MESSAGE_STDERR,
	KERNEL_MESSAGE_RESULT,
	KERNEL_MESSAGE_ERROR,
	KERNEL_MESSAGE_DONE,
	KERNEL_MESSAGE_SPAWNED,
	KERNEL_MESSAGE_FAILED
};

struct kernel_message {
	enum kernel_message_type type;
	uint64_t number;	/* of count, done and spawned */
	struct json_value body; /* the whole object */
};

/* Read a line without its newline. A line that begins with something else, as when user code wrote
 * to the socket, is read from the last message in it. */
struct kernel_message kernel_message_read(const char *line, size_t n);
