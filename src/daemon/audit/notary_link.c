#include "daemon/audit/notary_link.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/log.h"

#define PING_MS 15000
#define FIRST_PING_MS 1000
#define CALL_MS 30000
#define QUEUE_MAX (8U << 20) /* bytes of requests that wait to be sent */

struct notary_link {
	struct channel channel;
	struct loop *loop;
	void (*replace)(void *arg);
	void *arg;
	void (*on_up)(void *arg);
	void *up_arg;
	struct loop_task up;
	uint64_t down_since_ns;
};

/* ---- the channel */

static void on_end(struct channel *c, enum channel_end how, const char *why)
{
	struct notary_link *l = c->arg;

	l->down_since_ns = clock_now_ns();
	if (how == CHANNEL_CLOSED || how == CHANNEL_LOST)
		log_warn("cordon-notary disconnected", "");
}

static void on_hung(struct channel *c, const char *why)
{
	struct notary_link *l = c->arg;

	log_error("replacing cordon-notary", "error=%s", why);
	if (l->replace != NULL)
		l->replace(l->arg);
}

static int on_message(struct channel *channel, const struct channel_got *got, struct err *e)
{
	struct channel_call *wait;
	struct notary_call *c;
	struct notary_msg m;

	if (notary_msg_read(&got->frame, &m, e) < 0)
		return -1;
	if (m.type < NOTARY_SIGNED)
		return err_set(e, ERR_INVALID, "a message in the wrong direction");
	wait = channel_call_find(channel, m.id);
	if (wait == NULL) /* of a ping, or it was cancelled */
		return 0;
	c = wait->done.arg;
	if (m.type != NOTARY_REFUSED && m.type != c->expected)
		return err_set(e, ERR_INVALID, "an answer to another request");
	c->answer = &m;
	completion_end(&wait->done, NULL);
	return 0;
}

/* frame: room for the message, FRAME_HEAD + NOTARY_FRAME_MAX at most. */
static int link_send(struct notary_link *l, const struct notary_msg *m, uint8_t *frame, size_t cap,
		     struct err *e)
{
	int n = notary_msg_write(m, frame, cap);

	if (n < 0)
		return err_set(e, ERR_INVALID, "a field does not fit a message to cordon-notary");
	return channel_send(&l->channel, &(struct channel_msg){ .bytes = frame, .len = (size_t)n },
			    e);
}

static void on_ping(struct channel *c)
{
	const struct notary_msg m = { .type = NOTARY_KEY, .id = channel_next_id(c) };
	uint8_t frame[64];
	struct err e;

	IGNORED(link_send(c->arg, &m, frame, sizeof(frame), &e), "then it does not answer either");
}

static void on_up_task(struct loop_task *t)
{
	struct notary_link *l = t->arg;

	if (l->on_up != NULL && channel_is_up(&l->channel))
		l->on_up(l->up_arg);
}

struct notary_link *notary_link_new(struct loop *l, void (*replace)(void *arg), void *arg)
{
	static const struct channel_rules rules = { .peer = "cordon-notary",
						    .framed = true,
						    .in_max = NOTARY_FRAME_MAX,
						    .out_max = QUEUE_MAX,
						    .first_ping_ms = FIRST_PING_MS,
						    .ping_ms = PING_MS,
						    .patience_ms = PING_MS };
	struct notary_link *n = calloc(1, sizeof(*n));

	if (n == NULL)
		return NULL;
	n->loop = l;
	n->replace = replace;
	n->arg = arg;
	n->down_since_ns = clock_now_ns();
	n->up = (struct loop_task){ .on_run = on_up_task, .arg = n };
	channel_init(&n->channel, l, &rules);
	n->channel.arg = n;
	n->channel.on_message = on_message;
	n->channel.on_end = on_end;
	n->channel.on_hung = on_hung;
	n->channel.on_ping = on_ping;
	return n;
}

void notary_link_free(struct notary_link *l)
{
	if (l == NULL)
		return;
	loop_task_cancel(l->loop, &l->up);
	channel_release(&l->channel);
	free(l);
}

int notary_link_attach(struct notary_link *l, int sock, struct err *e)
{
	if (channel_attach(&l->channel, sock, e) < 0)
		return -1;
	loop_defer(l->loop, &l->up);
	return 0;
}

void notary_link_watch(struct notary_link *l, void (*on_up)(void *arg), void *arg)
{
	l->on_up = on_up;
	l->up_arg = arg;
	if (on_up != NULL && channel_is_up(&l->channel))
		loop_defer(l->loop, &l->up);
}

bool notary_link_is_up(const struct notary_link *l)
{
	return channel_is_up(&l->channel);
}

uint64_t notary_link_down_ms(const struct notary_link *l)
{
	return notary_link_is_up(l) ? 0 : (clock_now_ns() - l->down_since_ns) / CLOCK_MS + 1;
}

/* ---- calls */

static void on_ended(struct completion *w, const struct err *e)
{
	struct notary_call *c = w->arg;

	c->on_done(c, e == NULL ? c->answer : NULL, e);
}

static void notary_link_ask(struct notary_link *l, struct notary_call *c, struct notary_msg *m,
			    enum notary_type expected, size_t cap)
{
	OWN_MEM uint8_t *frame = malloc(cap);
	struct err e;
	int sent = -1;

	c->wait.done.on_done = on_ended;
	c->wait.done.arg = c;
	c->answer = NULL;
	c->expected = expected;
	m->id = channel_next_id(&l->channel);
	channel_call_begin(&l->channel, &c->wait, m->id, CALL_MS);
	if (!channel_is_up(&l->channel))
		(void)err_set_reason(&e, REASON_UNAVAILABLE, "cordon-notary is not running");
	else if (frame == NULL)
		(void)err_set(&e, ERR_SYSTEM, "out of memory");
	else
		sent = link_send(l, m, frame, cap, &e);
	if (sent < 0)
		completion_end(&c->wait.done, &e);
}

#define SMALL_MAX 4096

void notary_link_sign(struct notary_link *l, struct notary_call *c, const struct notary_sign *s)
{
	struct notary_msg m = { .type = NOTARY_SIGN,
				.origin = s->origin,
				.old_size = s->old_size,
				.size = s->size,
				.nproof = s->nproof,
				.proof = s->proof };

	memcpy(m.root, s->root, sizeof(m.root));
	notary_link_ask(l, c, &m, NOTARY_SIGNED, SMALL_MAX);
}

void notary_link_key(struct notary_link *l, struct notary_call *c)
{
	notary_link_ask(l, c, &(struct notary_msg){ .type = NOTARY_KEY }, NOTARY_KEY_IS, SMALL_MAX);
}

void notary_link_attest(struct notary_link *l, struct notary_call *c, enum notary_payload payload,
			const void *body, size_t len)
{
	struct notary_msg m = {
		.type = NOTARY_ATTEST, .payload = payload, .body = body, .body_len = len
	};

	notary_link_ask(l, c, &m, NOTARY_ATTESTED, FRAME_HEAD + NOTARY_FRAME_MAX);
}

void notary_link_rotate(struct notary_link *l, struct notary_call *c)
{
	notary_link_ask(l, c, &(struct notary_msg){ .type = NOTARY_ROTATE }, NOTARY_KEY_IS,
			SMALL_MAX);
}

void notary_link_retire(struct notary_link *l, struct notary_call *c)
{
	notary_link_ask(l, c, &(struct notary_msg){ .type = NOTARY_RETIRE }, NOTARY_KEY_IS,
			SMALL_MAX);
}

void notary_link_cancel(struct notary_call *c)
{
	completion_cancel(&c->wait.done);
}
