#include "cell/init/files/file_names.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/own.h"
#include "lib/wire/file_msg.h"

#define CACHED 8

struct file_names_line {
	const char *name;
	size_t len;
	uint32_t id;
};

struct database {
	bool read;
	size_t len;
	char text[65536];
	/* Most files of a listing have the same few owners. */
	struct {
		bool used;
		uint32_t id;
		char name[FILE_MSG_NAME_MAX];
	} cache[CACHED];
};

static struct database users, groups;

static bool file_names_parse_number(const char *p, size_t n, uint32_t *ret)
{
	uint64_t v = 0;

	if (n == 0 || n > 10)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (p[i] < '0' || p[i] > '9')
			return false;
		v = v * 10 + (uint64_t)(p[i] - '0');
	}
	if (v >= UINT32_MAX) /* the kernel takes -1 for "unchanged" */
		return false;
	*ret = (uint32_t)v;
	return true;
}

/* Read the line at *at and move *at behind it. False if it is malformed. */
static bool file_names_next_line(const char *text, size_t len, size_t *at,
				 struct file_names_line *ret)
{
	const char *p = text + *at, *end = memchr(p, '\n', len - *at);
	size_t n = end == NULL ? len - *at : (size_t)(end - p);
	const char *colon[3];

	*at += n + (end != NULL);
	ret->name = p;
	for (size_t i = 0; i < COUNT(colon); i++) {
		colon[i] = memchr(p, ':', n);
		if (colon[i] == NULL)
			return false;
		n -= (size_t)(colon[i] - p) + 1;
		p = colon[i] + 1;
	}
	ret->len = (size_t)(colon[0] - ret->name);
	return ret->len > 0 && memchr(ret->name, '\0', ret->len) == NULL &&
	       file_names_parse_number(colon[1] + 1, (size_t)(colon[2] - colon[1]) - 1, &ret->id);
}

bool file_names_find(const char *text, size_t len, uint32_t id, char *ret_name, size_t cap)
{
	struct file_names_line l;

	for (size_t at = 0; at < len;) {
		if (!file_names_next_line(text, len, &at, &l) || l.id != id || l.len >= cap)
			continue;
		memcpy(ret_name, l.name, l.len);
		ret_name[l.len] = '\0';
		return true;
	}
	return false;
}

bool file_names_number(const char *text, size_t len, const char *name, uint32_t *ret_id)
{
	struct file_names_line l;

	for (size_t at = 0; at < len;) {
		if (!file_names_next_line(text, len, &at, &l) || l.len != strlen(name) ||
		    memcmp(l.name, name, l.len) != 0)
			continue;
		*ret_id = l.id;
		return true;
	}
	return false;
}

/* Anything but a regular file (a FIFO would block) counts as empty. */
static void file_names_load(struct database *d)
{
	OWN_FD fd = -1;
	struct stat st;
	ssize_t n;

	if (d->read)
		return;
	d->read = true;
	fd = open(d == &users ? "/etc/passwd" : "/etc/group",
		  O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return;
	while (d->len < sizeof(d->text) &&
	       (n = read(fd, d->text + d->len, sizeof(d->text) - d->len)) > 0)
		d->len += (size_t)n;
}

static const char *file_names_name_of(struct database *d, uint32_t id)
{
	size_t slot = id % CACHED;

	file_names_load(d);
	if (!d->cache[slot].used || d->cache[slot].id != id) {
		d->cache[slot].used = true;
		d->cache[slot].id = id;
		if (!file_names_find(d->text, d->len, id, d->cache[slot].name, FILE_MSG_NAME_MAX))
			d->cache[slot].name[0] = '\0';
	}
	return d->cache[slot].name;
}

const char *file_names_user(uint32_t uid)
{
	return file_names_name_of(&users, uid);
}

const char *file_names_group(uint32_t gid)
{
	return file_names_name_of(&groups, gid);
}

const char *file_names_passwd(size_t *ret_len)
{
	file_names_load(&users);
	*ret_len = users.len;
	return users.text;
}

static bool file_names_number_of(struct database *d, const char *who, uint32_t *ret)
{
	file_names_load(d);
	return file_names_number(d->text, d->len, who, ret) ||
	       file_names_parse_number(who, strlen(who), ret);
}

bool file_names_owner(const char *text, uint32_t *ret_uid, uint32_t *ret_gid)
{
	char user[FILE_MSG_NAME_MAX];
	size_t n = strcspn(text, ":");

	if (n >= sizeof(user) || (text[n] == '\0' && n == 0))
		return false;
	memcpy(user, text, n);
	user[n] = '\0';
	if (n > 0 && !file_names_number_of(&users, user, ret_uid))
		return false;
	return text[n] == '\0' || file_names_number_of(&groups, text + n + 1, ret_gid);
}
