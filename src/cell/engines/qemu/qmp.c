/* qmp.c - see qmp.h. */
#include "cell/engines/qemu/qmp.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "lib/base/untrusted_fd.h"

#define DEPTH_MAX 8 /* of an expected answer or event: 4 */
#define RECEIVE_SIZE 4096

/* Names of events are upper case letters and underscores. */
static int qmp_event_name(struct json_value v, char ret[QMP_NAME_MAX], struct err *e)
{
	if (v.kind != JSON_READ_TEXT || v.n < 3 || v.n - 2 >= QMP_NAME_MAX)
		return err_set(e, ERR_INVALID, "an event of QEMU has no proper name");
	memcpy(ret, v.p + 1, v.n - 2);
	ret[v.n - 2] = '\0';
	if (strspn(ret, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") != v.n - 2)
		return err_set(e, ERR_INVALID, "an event of QEMU has no proper name");
	return 0;
}

int qmp_read_line(const char *line, size_t n, struct qmp_message *ret, struct err *e)
{
	static const struct {
		const char *member;
		enum qmp_kind kind;
	} kinds[] = {
		{ "QMP", QMP_GREETING },
		{ "return", QMP_RETURN },
		{ "error", QMP_ERROR },
		{ "event", QMP_EVENT },
	};
	struct json_value all, found;

	if (json_read(line, n, DEPTH_MAX, &all, e) < 0)
		return err_wrap(e, "QEMU's control channel");
	for (size_t i = 0; i < COUNT(kinds); i++) {
		found = json_read_member(all, kinds[i].member);
		if (found.kind == JSON_READ_NONE)
			continue;
		*ret = (struct qmp_message){ .kind = kinds[i].kind, .value = found };
		if (ret->kind == QMP_EVENT)
			ret->value = json_read_member(all, "data");
		return ret->kind == QMP_EVENT ? qmp_event_name(found, ret->name, e) : 0;
	}
	return err_set(e, ERR_INVALID, "QEMU's control channel: neither answer nor event");
}

void qmp_init(struct qmp *q, int fd)
{
	*q = (struct qmp){ .fd = fd };
	buf_init(&q->in, QMP_LINE_MAX + RECEIVE_SIZE);
}

void qmp_close(struct qmp *q)
{
	if (q->fd >= 0)
		untrusted_drain(q->fd);
	fd_close(TAKE_FD(q->fd));
	buf_release(&q->in);
}

int qmp_receive(struct qmp *q, struct err *e)
{
	uint8_t *to;
	ssize_t n;

	buf_consume(&q->in, q->taken);
	q->taken = 0;
	if (q->in.len > QMP_LINE_MAX)
		return err_set(e, ERR_LIMIT, "QEMU's control channel: a line is too long");
	to = buf_reserve(&q->in, RECEIVE_SIZE, e);
	if (to == NULL)
		return -1;
	n = untrusted_recv(q->fd, to, RECEIVE_SIZE);
	if (n < 0 && errno == ECONNRESET) /* it has exited without reading all */
		return 0;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		return err_sys(e, "QEMU's control channel");
	if (n > 0)
		buf_commit(&q->in, (size_t)n);
	return n != 0;
}

int qmp_next(struct qmp *q, struct qmp_message *ret, struct err *e)
{
	const char *end;

	buf_consume(&q->in, q->taken);
	q->taken = 0;
	*ret = (struct qmp_message){ .kind = QMP_NONE };
	end = q->in.len == 0 ? NULL : memchr(q->in.data, '\n', q->in.len);
	if (end == NULL)
		return 0;
	q->taken = (size_t)(end + 1 - (const char *)q->in.data);
	return qmp_read_line((const char *)q->in.data, q->taken - 1, ret, e);
}

/* One message with one descriptor, or none. */
static ssize_t qmp_send_with(int sock, struct iovec parts[2], int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control = { { 0 } };
	struct msghdr m = { .msg_iov = parts, .msg_iovlen = 2 };

	if (fd >= 0) {
		m.msg_control = control.bytes;
		m.msg_controllen = sizeof(control.bytes);
		struct cmsghdr *c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(c), &fd, sizeof(fd));
	}
	return sendmsg(sock, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

int qmp_send(struct qmp *q, const char *command, int fd, struct err *e)
{
	char newline[] = "\n";
	size_t n = strlen(command);
	struct iovec parts[2] = { { (void *)(uintptr_t)command, n }, { newline, 1 } };
	ssize_t sent = qmp_send_with(q->fd, parts, fd);

	if (sent < 0)
		return err_sys(e, "command QEMU");
	if ((size_t)sent != n + 1)
		return err_set(e, ERR_SYSTEM, "QEMU does not read its commands");
	return 0;
}
