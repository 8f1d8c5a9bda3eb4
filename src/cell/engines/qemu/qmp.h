/* qmp.h - the control channel of QEMU (QMP): one JSON document a line. Used by engine_qemu.c.
 *
 * The shim has one end of a socket pair, QEMU has inherited the other. QEMU is as untrusted as the
 * guest it runs: an overlong or malformed line is an error, descriptors that come along are closed,
 * and nothing here waits. The caller joins answers to commands: it sends one command at a time. */
#pragma once

#include "lib/base/buf.h"
#include "lib/json/json_read.h"

#define QMP_LINE_MAX 16384U /* the longest expected line is the greeting, about 300 bytes */
#define QMP_NAME_MAX 32

enum qmp_kind {
	QMP_NONE, /* no whole line is there yet */
	QMP_GREETING,
	QMP_RETURN, /* value: the result of the command */
	QMP_ERROR,  /* value: an object with class and desc */
	QMP_EVENT,  /* name: which. value: its data, or JSON_READ_NONE */
};

struct qmp_message {
	enum qmp_kind kind;
	struct json_value value; /* in the line, good until the next call for this channel */
	char name[QMP_NAME_MAX];
};

struct qmp {
	int fd;	       /* owned, a non-blocking Unix stream socket, or -1 */
	struct buf in; /* what has come and was not taken */
	size_t taken;  /* bytes of the line that qmp_next() gave last */
};

/* Understands one line, without its end. Pure. */
int qmp_read_line(const char *line, size_t n, struct qmp_message *ret, struct err *e) MUST_USE;

void qmp_init(struct qmp *q, int fd);
void qmp_close(struct qmp *q);

/* Receive available bytes. 1: there may be lines. 0: QEMU has closed its end. */
int qmp_receive(struct qmp *q, struct err *e) MUST_USE;
/* Give the next message. Kind QMP_NONE if there is none. */
int qmp_next(struct qmp *q, struct qmp_message *ret, struct err *e) MUST_USE;

/* Send a command: a JSON document without its end of line. fd, if it is not -1, goes along.
 * ERR_SYSTEM if QEMU does not take it at once: there is room for many commands. */
int qmp_send(struct qmp *q, const char *command, int fd, struct err *e) MUST_USE;
