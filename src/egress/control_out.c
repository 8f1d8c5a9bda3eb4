#include "control_out.h"

#include <assert.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#define QUEUE_MAX ((size_t)8 << 20) /* records and counts; answers may go a little beyond */
#define SHARE_MAX (QUEUE_MAX / 16)  /* of one session, while more than half is in use */

static void on_flush(struct loop_task *t)
{
	control_out_flush(t->arg);
}

void control_out_init(struct control_out *o, struct loop *l, struct loop_fd *watch)
{
	*o = (struct control_out){ .loop = l, .watch = watch };
	o->flush = (struct loop_task){ .on_run = on_flush, .arg = o };
}

void control_out_release(struct control_out *o)
{
	loop_task_cancel(o->loop, &o->flush);
	fifo_release(&o->bytes);
}

void control_out_restart(struct control_out *o)
{
	o->sent = 0;
}

bool control_out_put(struct control_out *o, enum egress_type type, const char *id, const char *text,
		     size_t len)
{
	uint8_t head[EGRESS_HEAD];
	uint8_t *to;

	if ((type == EGRESS_RECORD || type == EGRESS_COUNTS) && o->bytes.len + len > QUEUE_MAX)
		return false;
	egress_msg_head(head, type, id, len);
	to = fifo_reserve(&o->bytes, sizeof(head) + len);
	if (to == NULL)
		return false;
	memcpy(to, head, sizeof(head));
	if (len > 0)
		memcpy(to + sizeof(head), text, len);
	fifo_commit(&o->bytes, sizeof(head) + len);
	loop_defer(o->loop, &o->flush);
	return true;
}

bool control_out_record(struct control_out *o, struct control_out_share *share, const char *id,
			const char *text, size_t len)
{
	if (share->emptied != o->emptied)
		share->bytes = 0;
	share->emptied = o->emptied;
	if (o->bytes.len > QUEUE_MAX / 2 && share->bytes > SHARE_MAX)
		return false;
	if (!control_out_put(o, EGRESS_RECORD, id, text, len))
		return false;
	share->bytes += len;
	return true;
}

/* Size of the first frame; there must be one. */
static size_t frame_size(const struct control_out *o)
{
	const uint8_t *bytes = fifo_bytes(&o->bytes);

	assert(bytes != NULL);
	return FRAME_HEAD + ((size_t)bytes[0] | (size_t)bytes[1] << 8 | (size_t)bytes[2] << 16 |
			     (size_t)bytes[3] << 24);
}

void control_out_flush(struct control_out *o)
{
	int sock = o->watch->fd;

	while (sock >= 0 && o->bytes.len > 0) {
		ssize_t n = send(sock, fifo_bytes(&o->bytes) + o->sent, o->bytes.len - o->sent,
				 MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0) /* if the channel is gone, the next read shows it */
			break;
		o->sent += (size_t)n;
		while (o->bytes.len > 0 && o->sent >= frame_size(o)) {
			o->sent -= frame_size(o);
			fifo_consume(&o->bytes, frame_size(o));
		}
	}
	if (o->bytes.len == 0) {
		fifo_release(&o->bytes);
		o->emptied++;
	}
	loop_modify(o->loop, o->watch, EPOLLIN | (o->bytes.len > 0 ? (uint32_t)EPOLLOUT : 0));
}
