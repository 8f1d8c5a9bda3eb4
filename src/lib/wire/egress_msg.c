#include "lib/wire/egress_msg.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

static bool egress_is_id(const uint8_t *id, bool may_be_empty)
{
	size_t n = strnlen((const char *)id, EGRESS_ID_MAX);

	if (n == EGRESS_ID_MAX || (n == 0 && !may_be_empty))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!((id[i] >= 'a' && id[i] <= 'z') || (id[i] >= '0' && id[i] <= '9') ||
		      id[i] == '_'))
			return false;
	for (size_t i = n; i < EGRESS_ID_MAX; i++)
		if (id[i] != 0)
			return false;
	return true;
}

static size_t egress_text_max(enum egress_type type)
{
	switch (type) {
	case EGRESS_ATTACH:
	case EGRESS_ATTACH_OWNERS:
	case EGRESS_CHANGE:
	case EGRESS_SECRETS:
		return EGRESS_TEXT_MAX;
	case EGRESS_RECORD:
		return EGRESS_PROMPT_MAX;
	case EGRESS_TAKEN:
	case EGRESS_COUNTS:
	case EGRESS_TURNS:
		return EGRESS_RECORD_MAX;
	case EGRESS_DETACH:
	case EGRESS_SYNCED:
	case EGRESS_PING:
	case EGRESS_PONG:
	case EGRESS_CACHE:
	case EGRESS_REQUESTS_END:
	case EGRESS_EVENTS_END:
		break;
	}
	return 0;
}

static bool egress_is_type(unsigned type)
{
	return (type >= EGRESS_ATTACH && type < EGRESS_REQUESTS_END) ||
	       (type >= EGRESS_TAKEN && type < EGRESS_EVENTS_END);
}

/* Messages that concern no session have an empty id. */
static bool egress_has_no_session(enum egress_type type)
{
	return type == EGRESS_SYNCED || type == EGRESS_PING || type == EGRESS_PONG ||
	       type == EGRESS_TURNS || type == EGRESS_CACHE;
}

int egress_msg_read(const struct frame *f, struct egress_msg *ret, struct err *e)
{
	if (!egress_is_type(f->type))
		return err_set(e, ERR_INVALID, "channel C: unknown message type %u", f->type);
	*ret = (struct egress_msg){ .type = (enum egress_type)f->type };
	if (f->len < EGRESS_ID_MAX || !egress_is_id(f->body, egress_has_no_session(ret->type)))
		return err_set(e, ERR_INVALID, "channel C: message %u without a valid session id",
			       f->type);
	memcpy(ret->id, f->body, EGRESS_ID_MAX);
	ret->text = (const char *)f->body + EGRESS_ID_MAX;
	ret->len = f->len - EGRESS_ID_MAX;
	if (ret->len > egress_text_max(ret->type) || memchr(ret->text, '\0', ret->len) != NULL)
		return err_set(e, ERR_INVALID,
			       "channel C: text of message %u is too long or has a NUL", f->type);
	return 0;
}

size_t egress_msg_fds(enum egress_type type)
{
	if (type == EGRESS_ATTACH_OWNERS)
		return 3;
	if (type == EGRESS_CACHE)
		return 1;
	return type == EGRESS_ATTACH ? 2 : 0;
}

void egress_msg_head(uint8_t ret[EGRESS_HEAD], enum egress_type type, const char *id, size_t len)
{
	size_t n = strlen(id);

	assert(n < EGRESS_ID_MAX && len <= egress_text_max(type));
	memset(ret, 0, EGRESS_HEAD);
	frame_head(ret, (uint16_t)type, (uint32_t)(EGRESS_ID_MAX + len));
	memcpy(ret + FRAME_HEAD, id, n + 1);
}
