#include "lib/wire/guest_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "lib/wire/cell_spec.h"
#include "lib/wire/codec.h"

static bool guest_is_machine_id(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	return s[n] == '\0' && (n == 0 || n == GUEST_MACHINE_ID);
}

/* As in hostname(7), with dots and underscores. */
static bool guest_is_hostname(const char *s)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

	return s[strspn(s, ok)] == '\0';
}

/* One user, who is not root, or no such member. */
static bool guest_is_profile(const struct guest_hello *h)
{
	if ((h->flags & GUEST_LOCKED) == 0)
		return h->uid == 0 && h->gid == 0;
	return h->uid != 0 && h->uid < CELL_IDS && h->gid != 0 && h->gid < CELL_IDS;
}

static bool guest_hello_fits(const struct guest_hello *h)
{
	return h->generation != 0 && h->wall_ns <= INT64_MAX &&
	       (h->flags & ~(uint32_t)GUEST_HELLO_FLAGS) == 0 &&
	       guest_is_machine_id(h->machine_id) && guest_is_hostname(h->hostname) &&
	       guest_is_profile(h);
}

static void guest_hello(struct codec *c, struct guest_hello *h)
{
	codec_int(c, 8, h->generation);
	codec_int(c, 8, h->wall_ns);
	codec_int(c, 4, h->flags);
	codec_int(c, 8, h->pids);
	codec_int(c, 8, h->memory_bytes);
	codec_int(c, 8, h->nofile);
	codec_int(c, 8, h->disk_bytes);
	codec_int(c, 8, h->inodes);
	codec_bytes(c, h->entropy, sizeof(h->entropy));
	codec_text(c, sizeof(h->machine_id), h->machine_id);
	codec_text(c, sizeof(h->hostname), h->hostname);
	if ((h->flags & GUEST_LOCKED) != 0) {
		codec_int(c, 4, h->uid);
		codec_int(c, 4, h->gid);
	}
}

size_t guest_hello_write(const struct guest_hello *h, uint8_t ret_body[GUEST_HELLO_SIZE])
{
	struct codec c = codec_writer(ret_body, GUEST_HELLO_SIZE);
	struct guest_hello copy = *h;

	if (!guest_hello_fits(h))
		return 0;
	guest_hello(&c, &copy);
	return c.bad ? 0 : (size_t)(c.to - ret_body);
}

int guest_hello_read(const struct frame *f, struct guest_hello *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);
	struct guest_hello h = { 0 };

	guest_hello(&c, &h);
	if (c.bad || c.n != 0 || !guest_hello_fits(&h))
		return err_set(e, ERR_INVALID, "HELLO is malformed");
	*ret = h;
	return 0;
}

static void guest_ready(struct codec *c, struct guest_ready *r)
{
	codec_int(c, 8, r->generation);
	codec_int(c, 4, r->version);
	codec_int(c, 4, r->refused);
	codec_int(c, 4, r->sys);
}

void guest_ready_write(const struct guest_ready *r, uint8_t ret_body[GUEST_READY_SIZE])
{
	struct codec c = codec_writer(ret_body, GUEST_READY_SIZE);
	struct guest_ready copy = *r;

	guest_ready(&c, &copy);
}

int guest_ready_read(const struct frame *f, struct guest_ready *ret, struct err *e)
{
	struct codec c = codec_reader(f->body, f->len);
	struct guest_ready g = { 0 };

	guest_ready(&c, &g);
	if (c.bad || c.n != 0 || g.generation == 0 || g.version == 0 || g.sys < 0 || g.sys > 4095 ||
	    (g.refused & ~(uint32_t)GUEST_REFUSED_ALL) != 0 || (g.sys != 0 && g.refused == 0))
		return err_set(e, ERR_INVALID, "the guest sent a malformed READY");
	*ret = g;
	return 0;
}

int guest_empty_read(const struct frame *f, struct err *e)
{
	if (f->len != 0)
		return err_set(e, ERR_INVALID, "message %u has %u bytes, want none", f->type,
			       f->len);
	return 0;
}

static bool guest_sends(uint16_t type)
{
	return type == AGENT_STARTED || type == AGENT_FAILED || type == AGENT_EXITED ||
	       type == AGENT_ALL_DEAD || type == AGENT_HELD || type == AGENT_SYNCED ||
	       type == AGENT_TREE_DEAD || type == AGENT_STATED;
}

size_t guest_event_write(const struct guest_event *v, uint8_t ret_body[GUEST_TO_SHIM_MAX])
{
	struct codec c = codec_writer(ret_body + sizeof(v->event), 2 * (size_t)GUEST_EVENT_FDS);

	assert(v->nstreams <= GUEST_EVENT_FDS);
	memcpy(ret_body, &v->event, sizeof(v->event));
	for (size_t i = 0; i < v->nstreams; i++)
		(void)codec_number(&c, 2, v->streams[i]);
	return sizeof(v->event) + 2 * v->nstreams;
}

static bool guest_streams_fit(const struct guest_event *v)
{
	for (size_t i = 0; i < v->nstreams; i++) {
		if (v->streams[i] >= MUX_NUMBERS || (v->streams[i] & 1) != MUX_GUEST)
			return false;
		for (size_t j = 0; j < i; j++)
			if (v->streams[i] == v->streams[j])
				return false;
	}
	return true;
}

int guest_event_read(const struct frame *f, struct guest_event *ret, struct err *e)
{
	struct guest_event v = { .nstreams = 0 };
	struct frame head = *f;
	struct codec c;

	if (!guest_sends(f->type))
		return err_set(e, ERR_INVALID, "the guest sent a message of unknown type %u",
			       f->type);
	if (f->len < sizeof(v.event))
		return err_set(e, ERR_INVALID, "the guest sent %u bytes, want %zu", f->len,
			       sizeof(v.event));
	head.len = sizeof(v.event);
	if (agent_event_read(&head, &v.event, e) < 0)
		return -1;
	v.nstreams = agent_event_fds((enum agent_type)f->type, &v.event);
	c = codec_reader(f->body + head.len, f->len - head.len);
	if (v.nstreams > GUEST_EVENT_FDS || c.n != 2 * v.nstreams)
		return err_set(e, ERR_INVALID, "the guest sent %zu bytes of streams, want %zu", c.n,
			       2 * v.nstreams);
	for (size_t i = 0; i < v.nstreams; i++)
		codec_int(&c, 2, v.streams[i]);
	if (!guest_streams_fit(&v))
		return err_set(e, ERR_INVALID, "the guest sent stream numbers out of range");
	*ret = v;
	return 0;
}

enum mux_way guest_event_way(const struct agent_event *v, size_t i)
{
	if ((v->flags & AGENT_IS_TTY) != 0 && (v->flags & AGENT_IS_HELD) == 0)
		return MUX_BOTH;
	return i == 0 && (v->flags & AGENT_HAS_STDIN) != 0 ? MUX_IN : MUX_OUT;
}
