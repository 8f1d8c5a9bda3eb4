#include "cell/init/base/users.h"

#include <string.h>

#include "lib/base/str.h"

struct field {
	const char *p;
	size_t n;
};

/* Split the line at *at into up to max fields by ':' and move *at behind it. */
static size_t users_split_line(const char *text, size_t len, size_t *at, struct field *ret,
			       size_t max)
{
	const char *line = text + *at;
	const char *end = memchr(line, '\n', len - *at);
	size_t n = end == NULL ? len - *at : (size_t)(end - line), count = 0;

	*at += n + (end != NULL);
	while (count < max) {
		const char *colon = memchr(line, ':', n);
		size_t field = colon == NULL ? n : (size_t)(colon - line);

		ret[count++] = (struct field){ line, field };
		if (colon == NULL)
			break;
		line += field + 1;
		n -= field + 1;
	}
	return count;
}

static bool users_is(struct field f, const char *s)
{
	return strlen(s) == f.n && memcmp(f.p, s, f.n) == 0;
}

static bool users_number(struct field f, uint32_t *ret)
{
	uint64_t v = 0;

	if (f.n == 0 || f.n > 10)
		return false;
	for (size_t i = 0; i < f.n; i++) {
		if (f.p[i] < '0' || f.p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(f.p[i] - '0');
	}
	if (v >= UINT32_MAX) /* the kernel takes -1 for "unchanged" */
		return false;
	*ret = (uint32_t)v;
	return true;
}

static bool users_copy(struct field f, char *ret, size_t cap)
{
	if (f.n >= cap || memchr(f.p, '\0', f.n) != NULL)
		return false;
	memcpy(ret, f.p, f.n);
	ret[f.n] = '\0';
	return true;
}

bool users_find(const char *text, size_t len, const char *who, struct users_entry *ret)
{
	struct field wanted = { who, strlen(who) };
	uint32_t uid = 0;
	bool by_number = users_number(wanted, &uid);

	for (size_t at = 0; at < len;) {
		struct field f[7];
		struct users_entry u;

		if (users_split_line(text, len, &at, f, 7) != 7 || !users_number(f[2], &u.uid) ||
		    !users_number(f[3], &u.gid) || !users_copy(f[0], u.name, sizeof(u.name)) ||
		    !users_copy(f[5], u.home, sizeof(u.home)) ||
		    !users_copy(f[6], u.shell, sizeof(u.shell)))
			continue;
		if (by_number ? u.uid == uid : users_is(f[0], who)) {
			*ret = u;
			return true;
		}
	}
	return false;
}

static bool users_lists(struct field members, const char *name)
{
	while (members.n > 0) {
		const char *comma = memchr(members.p, ',', members.n);
		size_t n = comma == NULL ? members.n : (size_t)(comma - members.p);

		if (users_is((struct field){ members.p, n }, name))
			return true;
		members.p += n + (comma != NULL);
		members.n -= n + (comma != NULL);
	}
	return false;
}

size_t users_groups(const char *text, size_t len, const char *name, uint32_t *ret_gids, size_t cap)
{
	size_t count = 0;

	for (size_t at = 0; at < len && count < cap;) {
		struct field f[4];
		uint32_t gid;

		if (users_split_line(text, len, &at, f, 4) == 4 && users_number(f[2], &gid) &&
		    users_lists(f[3], name))
			ret_gids[count++] = gid;
	}
	return count;
}

bool users_bare(const char *who, struct users_entry *ret)
{
	struct field wanted = { who, strlen(who) };
	struct users_entry u = { .home = "/", .shell = "/bin/sh" };

	if (!users_number(wanted, &u.uid))
		return false;
	u.gid = u.uid;
	str_copy(u.name, who);
	*ret = u;
	return true;
}
