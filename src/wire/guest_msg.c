#include "guest_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "cell_spec.h"
#include "codec.h"

static bool is_machine_id(const char *s)
{
	size_t n = strspn(s, "0123456789abcdef");

	return s[n] == '\0' && (n == 0 || n == GUEST_MACHINE_ID);
}

/* As in hostname(7), with dots and underscores. */
static bool is_hostname(const char *s)
{
	static const char ok[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._";

	return s[strspn(s, ok)] == '\0';
}

/* One user, who is not root; or no such member. */
static bool is_profile(const struct guest_hello *h)
{
	if ((h->flags & GUEST_LOCKED) == 0)
		return h->uid == 0 && h->gid == 0;
	return h->uid != 0 && h->uid < CELL_IDS && h->gid != 0 && h->gid < CELL_IDS;
}

static bool hello_fits(const struct guest_hello *h)
{
	return h->generation != 0 && h->wall_ns <= INT64_MAX &&
	       (h->flags & ~(uint32_t)GUEST_HELLO_FLAGS) == 0 && is_machine_id(h->machine_id) &&
	       is_hostname(h->hostname) && is_profile(h);
}

size_t guest_hello_write(const struct guest_hello *h, uint8_t ret_body[GUEST_HELLO_SIZE])
{
	struct codec_writer w = { ret_body, GUEST_HELLO_SIZE, false };

	if (!hello_fits(h))
		return 0;
	codec_put(&w, 8, h->generation);
	codec_put(&w, 8, h->wall_ns);
	codec_put(&w, 4, h->flags);
	codec_put(&w, 8, h->pids);
	codec_put(&w, 8, h->memory_bytes);
	codec_put(&w, 8, h->nofile);
	codec_put(&w, 8, h->disk_bytes);
	codec_put(&w, 8, h->inodes);
	for (size_t i = 0; i < GUEST_ENTROPY; i++)
		codec_put(&w, 1, h->entropy[i]);
	codec_put_string(&w, sizeof(h->machine_id), h->machine_id);
	codec_put_string(&w, sizeof(h->hostname), h->hostname);
	if ((h->flags & GUEST_LOCKED) != 0) {
		codec_put(&w, 4, h->uid);
		codec_put(&w, 4, h->gid);
	}
	return w.bad ? 0 : (size_t)(w.p - ret_body);
}

static void get_text(struct codec_reader *r, char *ret, size_t cap)
{
	const char *s = codec_get_string(r, cap);

	memcpy(ret, s, strlen(s) + 1);
}

int guest_hello_read(const struct frame *f, struct guest_hello *ret, struct err *e)
{
	struct codec_reader r = { f->body, f->len, false };
	struct guest_hello h = { 0 };

	h.generation = codec_get(&r, 8);
	h.wall_ns = codec_get(&r, 8);
	h.flags = (uint32_t)codec_get(&r, 4);
	h.pids = codec_get(&r, 8);
	h.memory_bytes = codec_get(&r, 8);
	h.nofile = codec_get(&r, 8);
	h.disk_bytes = codec_get(&r, 8);
	h.inodes = codec_get(&r, 8);
	for (size_t i = 0; i < GUEST_ENTROPY; i++)
		h.entropy[i] = (uint8_t)codec_get(&r, 1);
	get_text(&r, h.machine_id, sizeof(h.machine_id));
	get_text(&r, h.hostname, sizeof(h.hostname));
	if ((h.flags & GUEST_LOCKED) != 0) {
		h.uid = (uint32_t)codec_get(&r, 4);
		h.gid = (uint32_t)codec_get(&r, 4);
	}
	if (r.bad || r.n != 0 || !hello_fits(&h))
		return err_set(e, ERR_INVALID, "HELLO is malformed");
	*ret = h;
	return 0;
}

void guest_ready_write(const struct guest_ready *r, uint8_t ret_body[GUEST_READY_SIZE])
{
	struct codec_writer w = { ret_body, GUEST_READY_SIZE, false };

	codec_put(&w, 8, r->generation);
	codec_put(&w, 4, r->version);
	codec_put(&w, 4, r->refused);
	codec_put(&w, 4, (uint32_t)r->sys);
}

int guest_ready_read(const struct frame *f, struct guest_ready *ret, struct err *e)
{
	struct codec_reader r = { f->body, f->len, false };
	struct guest_ready g = { .generation = codec_get(&r, 8) };
	uint32_t sys;

	g.version = (uint32_t)codec_get(&r, 4);
	g.refused = (uint32_t)codec_get(&r, 4);
	sys = (uint32_t)codec_get(&r, 4);
	if (r.bad || r.n != 0 || g.generation == 0 || g.version == 0 || sys > 4095 ||
	    (g.refused & ~(uint32_t)GUEST_REFUSED_ALL) != 0 || (sys != 0 && g.refused == 0))
		return err_set(e, ERR_INVALID, "the guest sent a malformed READY");
	g.sys = (int32_t)sys;
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
	struct codec_writer w = { ret_body + sizeof(v->event), 2 * (size_t)GUEST_EVENT_FDS, false };

	assert(v->nstreams <= GUEST_EVENT_FDS);
	memcpy(ret_body, &v->event, sizeof(v->event));
	for (size_t i = 0; i < v->nstreams; i++)
		codec_put(&w, 2, v->streams[i]);
	return sizeof(v->event) + 2 * v->nstreams;
}

static bool streams_fit(const struct guest_event *v)
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
	struct codec_reader r;

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
	r = (struct codec_reader){ f->body + head.len, f->len - head.len, false };
	if (v.nstreams > GUEST_EVENT_FDS || r.n != 2 * v.nstreams)
		return err_set(e, ERR_INVALID, "the guest sent %zu bytes of streams, want %zu", r.n,
			       2 * v.nstreams);
	for (size_t i = 0; i < v.nstreams; i++)
		v.streams[i] = (uint16_t)codec_get(&r, 2);
	if (!streams_fit(&v))
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
