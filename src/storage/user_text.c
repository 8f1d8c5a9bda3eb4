#include "storage/user_text.h"

#include <string.h>

#define FIRST_ID 1000U
#define LAST_ID 60000U
#define MEMBERS_AT 3 /* field of a group's line */

struct user_text_line {
	const char *at;
	size_t len; /* without its newline */
};

/* The next line of the text. False at the end. */
static bool user_next(const char *text, size_t len, size_t *at, struct user_text_line *ret)
{
	const char *end;

	if (*at >= len)
		return false;
	end = memchr(text + *at, '\n', len - *at);
	ret->at = text + *at;
	ret->len = end == NULL ? len - *at : (size_t)(end - ret->at);
	*at += ret->len + 1;
	return true;
}

/* Field n of a line, from 0 on. False if the line has fewer fields. */
static bool user_field(const struct user_text_line *l, unsigned n, struct user_text_line *ret)
{
	const char *at = l->at, *end = l->at + l->len;

	for (;; n--) {
		const char *colon = memchr(at, ':', (size_t)(end - at));

		if (n == 0) {
			ret->at = at;
			ret->len = (size_t)((colon == NULL ? end : colon) - at);
			return true;
		}
		if (colon == NULL)
			return false;
		at = colon + 1;
	}
}

static bool user_is_named(const struct user_text_line *l, const char *name)
{
	size_t n = strlen(name);

	return l->len > n && memcmp(l->at, name, n) == 0 && l->at[n] == ':';
}

static bool user_find(const char *text, size_t len, const char *name, struct user_text_line *ret)
{
	size_t at = 0;

	while (user_next(text, len, &at, ret))
		if (user_is_named(ret, name))
			return true;
	return false;
}

bool user_text_has(const char *text, size_t len, const char *name)
{
	struct user_text_line l;

	return user_find(text, len, name, &l);
}

static bool user_read_id(const struct user_text_line *l, unsigned n, uint32_t *ret)
{
	struct user_text_line f;
	uint32_t v = 0;

	if (!user_field(l, n, &f) || f.len == 0 || f.len > 9)
		return false;
	for (size_t i = 0; i < f.len; i++) {
		if (f.at[i] < '0' || f.at[i] > '9')
			return false;
		v = v * 10 + (uint32_t)(f.at[i] - '0');
	}
	*ret = v;
	return true;
}

/* The first free id from `from` on, in one pass. LAST_ID if there is none. */
static uint32_t user_first_free(const char *text, size_t len, uint32_t from)
{
	uint8_t taken[(LAST_ID + 7) / 8] = { 0 };
	size_t at = 0;
	struct user_text_line l;
	uint32_t id;

	while (user_next(text, len, &at, &l))
		if (user_read_id(&l, 2, &id) && id < LAST_ID)
			taken[id / 8] |= (uint8_t)(1U << id % 8);
	for (id = from; id < LAST_ID; id++)
		if ((taken[id / 8] & 1U << id % 8) == 0)
			break;
	return id;
}

void user_text_choose(const char *passwd, size_t passwd_len, const char *group, size_t group_len,
		      struct user_text *u)
{
	struct user_text_line l;

	if (user_find(passwd, passwd_len, USER_TEXT_USER, &l) && user_read_id(&l, 2, &u->uid) &&
	    user_read_id(&l, 3, &u->gid))
		return;
	u->uid = u->gid = user_first_free(passwd, passwd_len, FIRST_ID);
	if (user_find(group, group_len, USER_TEXT_USER, &l) && user_read_id(&l, 2, &u->gid))
		return;
	u->gid = user_first_free(group, group_len, u->uid);
}

/* The text, ended by a newline. */
static void user_put_old(const char *old, size_t len, struct buf *ret)
{
	buf_put(ret, old, len);
	if (len > 0 && old[len - 1] != '\n')
		buf_put_text(ret, "\n");
}

void user_text_passwd(const char *old, size_t len, const struct user_text *u, struct buf *ret)
{
	user_put_old(old, len, ret);
	if (!user_text_has(old, len, "root"))
		buf_printf(ret, "root:x:0:0:root:/root:%s\n", u->shell);
	if (!user_text_has(old, len, USER_TEXT_USER))
		buf_printf(ret, USER_TEXT_USER ":x:%u:%u:user:%s:%s\n", u->uid, u->gid, u->home,
			   u->shell);
}

/* The last field of a group's line lists its members. */
static bool user_is_member(const struct user_text_line *l)
{
	const size_t n = strlen(USER_TEXT_USER);
	struct user_text_line members;

	if (!user_field(l, MEMBERS_AT, &members))
		return false;
	for (size_t at = 0; at <= members.len;) {
		const char *comma =
			at < members.len ? memchr(members.at + at, ',', members.len - at) : NULL;
		size_t len = comma == NULL ? members.len - at : (size_t)(comma - members.at) - at;

		if (len == n && memcmp(members.at + at, USER_TEXT_USER, n) == 0)
			return true;
		at += len + 1;
	}
	return false;
}

/* Lines of groups whose members may use sudo get one more. */
static void user_put_groups(const char *old, size_t len, struct buf *ret)
{
	struct user_text_line l, members;
	size_t at = 0;

	while (user_next(old, len, &at, &l)) {
		buf_put(ret, l.at, l.len);
		if ((user_is_named(&l, "sudo") || user_is_named(&l, "wheel")) &&
		    !user_is_member(&l) && user_field(&l, MEMBERS_AT, &members) &&
		    members.at + members.len == l.at + l.len)
			buf_printf(ret, "%s" USER_TEXT_USER, members.len > 0 ? "," : "");
		buf_put_text(ret, "\n");
	}
}

void user_text_group(const char *old, size_t len, const struct user_text *u, struct buf *ret)
{
	user_put_groups(old, len, ret);
	if (!user_text_has(old, len, "root"))
		buf_put_text(ret, "root:x:0:\n");
	if (!user_text_has(old, len, USER_TEXT_USER))
		buf_printf(ret, USER_TEXT_USER ":x:%u:\n", u->gid);
}

void user_text_shadow(const char *old, size_t len, struct buf *ret)
{
	user_put_old(old, len, ret);
	if (!user_text_has(old, len, "root"))
		buf_put_text(ret, "root:*:19000:0:99999:7:::\n");
	if (!user_text_has(old, len, USER_TEXT_USER))
		buf_put_text(ret, USER_TEXT_USER ":*:19000:0:99999:7:::\n");
}

void user_text_gshadow(const char *old, size_t len, struct buf *ret)
{
	user_put_groups(old, len, ret);
	if (!user_text_has(old, len, USER_TEXT_USER))
		buf_put_text(ret, USER_TEXT_USER ":!::\n");
}
