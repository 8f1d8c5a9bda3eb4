#include "daemon/images/pull_link.h"

#include <string.h>

#include "lib/base/fd.h"
#include "lib/base/log.h"

#define PING_MS 15000

/* ---- calls */

/* Out of the list. No callback of the call follows. */
static struct pull_call *pull_link_take(struct pull_link *l, struct pull_call *c)
{
	struct pull_call **at = &l->calls;

	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	c->link = NULL;
	return c;
}

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	struct pull_link *l = c->arg;
	struct err e;

	(void)err_set_reason(&e, REASON_PEER_DIED, "cordon-pull exited");
	while (l->calls != NULL) {
		struct pull_call *call = pull_link_take(l, l->calls);

		call->on_failed(call, "", &e);
	}
}

static void on_hung(struct channel *c, const char *why)
{
	struct pull_link *l = c->arg;

	log_error("cordon-pull is to be replaced", "error=%s", why);
	if (l->on_hung != NULL)
		l->on_hung(l->arg);
}

/* fd is taken over in any case. */
static int pull_link_send(struct pull_link *l, const struct pull_msg *m, int fd, struct err *e)
{
	static uint8_t bytes[FRAME_HEAD + PULL_REQUEST_MAX];
	OWN_FD mine = fd;
	int n = pull_msg_write(m, bytes, sizeof(bytes)), sent;

	if (n < 0)
		return err_set(e, ERR_INVALID, "the reference or its credentials are too long");
	sent = channel_send(
		&l->channel,
		&(struct channel_msg){
			.bytes = bytes, .len = (size_t)n, .fds = &mine, .nfds = mine >= 0 },
		e);
	explicit_bzero(bytes, (size_t)n); /* it may have a password */
	return sent;
}

static void on_ping(struct channel *c)
{
	const struct pull_msg m = { .type = PULL_PING };
	struct err e;

	IGNORED(pull_link_send(c->arg, &m, -1, &e), "then it does not answer either");
}

/* ---- receiving */

static struct pull_call *pull_link_find(const struct pull_link *l, uint32_t number)
{
	struct pull_call *c = l->calls;

	while (c != NULL && c->number != number)
		c = c->next;
	return c;
}

/* A failed blob leaves the call open. A failed pull ends it. */
static void on_failure(struct pull_call *c, const struct pull_msg *m)
{
	struct err e;

	(void)err_set(&e, m->code, "%s", m->text);
	err_sanitize(&e);
	if (m->blob != 0)
		c->on_blob(c, m->blob, &e);
	else
		(void)pull_link_take(c->link, c)->on_failed(c, m->word, &e);
}

static int on_message(struct channel *channel, const struct channel_got *got, struct err *e)
{
	struct pull_call *c;
	struct pull_msg m;

	if (pull_msg_read(&got->frame, &m, e) < 0)
		return -1;
	if (m.type < PULL_DOCUMENT)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	c = pull_link_find(channel->arg, m.pull);
	if (c == NULL) /* a pong, or it was ended before this came */
		return 0;
	if (m.type == PULL_DOCUMENT)
		c->on_document(c, m.document, m.data, m.len);
	else if (m.type == PULL_PROGRESS)
		c->on_progress(c, m.blob, m.bytes);
	else if (m.type == PULL_BLOB_DONE)
		c->on_blob(c, m.blob, NULL);
	else if (m.type == PULL_FAILED)
		on_failure(c, &m);
	return 0;
}

/* ---- what callers use */

void pull_link_init(struct pull_link *l, struct loop *loop)
{
	static const struct channel_rules rules = { .peer = "cordon-pull",
						    .framed = true,
						    .in_max = PULL_BODY_MAX,
						    .untrusted = true,
						    .first_ping_ms = PING_MS,
						    .ping_ms = PING_MS,
						    .patience_ms = PING_MS };

	*l = (struct pull_link){ 0 };
	channel_init(&l->channel, loop, &rules);
	l->channel.arg = l;
	l->channel.on_message = on_message;
	l->channel.on_end = on_end;
	l->channel.on_hung = on_hung;
	l->channel.on_ping = on_ping;
}

void pull_link_release(struct pull_link *l)
{
	while (l->calls != NULL)
		(void)pull_link_take(l, l->calls);
	channel_release(&l->channel);
}

int pull_link_attach(struct pull_link *l, int sock, struct err *e)
{
	return channel_attach(&l->channel, sock, e);
}

int pull_link_start(struct pull_link *l, struct pull_call *c, const struct pull_start *start,
		    struct err *e)
{
	struct pull_msg m = { .type = PULL_START, .start = *start };

	if (!channel_is_up(&l->channel))
		return err_set_reason(e, REASON_UNAVAILABLE,
				      "cordon-pull is being started, try again");
	do
		m.pull = ++l->last;
	while (m.pull == 0 || pull_link_find(l, m.pull) != NULL);
	c->number = m.pull;
	if (pull_link_send(l, &m, -1, e) < 0)
		return -1;
	c->link = l;
	c->next = l->calls;
	l->calls = c;
	return 0;
}

int pull_link_blob(struct pull_call *c, uint32_t number, const uint8_t sha256[32], uint64_t size,
		   int fd, struct err *e)
{
	struct pull_msg m = { .type = PULL_BLOB, .pull = c->number, .blob = number, .bytes = size };

	if (c->link == NULL) {
		fd_close(fd);
		return err_set(e, ERR_SYSTEM, "the pull has ended");
	}
	memcpy(m.sha256, sha256, sizeof(m.sha256));
	return pull_link_send(c->link, &m, fd, e);
}

void pull_link_end(struct pull_call *c)
{
	const struct pull_msg m = { .type = PULL_END, .pull = c->number };
	struct pull_link *l = c->link;
	struct err e;

	if (l == NULL)
		return;
	(void)pull_link_take(l, c);
	IGNORED(pull_link_send(l, &m, -1, &e), "it has a deadline");
}
