/* advisories_import.c - theory of operation
 *
 * The operator has a checkout of a collection of reports; nothing is fetched here. All lines are
 * kept in memory, sorted, and written as one file, which replaces the list before it whole or not
 * at all. The supervisor sees that the file has changed and gives it to cordon-egress.
 *
 * A report that cannot be read is named and counted, and the others still count: one broken file of
 * two hundred thousand must not keep an old list in force. */
#include "advisories_import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "advisories.h"
#include "buf.h"
#include "io.h"
#include "osv.h"
#include "saved_file.h"
#include "show.h"

#define DEPTH_MAX 16
#define PLACE_MAX 4096

struct import {
	struct buf lines;
	char *text; /* of one report */
	size_t reports, broken, skipped;
};

static int on_entry(void *arg, const struct osv_entry *entry, struct err *e)
{
	struct import *m = arg;
	char line[PACKAGE_NAME_MAX + PACKAGE_VERSION_MAX + OSV_ID_MAX + 16];
	int n = snprintf(line, sizeof(line), "%s %s %s %s\n", ecosystem_name(entry->ecosystem),
			 entry->name, entry->version, entry->id);

	return buf_add(&m->lines, line, (size_t)n, e);
}

static int read_report(struct import *m, const char *path, struct err *e)
{
	struct err why = { 0 };
	size_t skipped = 0;
	ssize_t n = io_read_file(AT_FDCWD, path, m->text, OSV_TEXT_MAX + 2, &why);

	m->reports++;
	if (n >= 0 && osv_read(m->text, (size_t)n, on_entry, m, &skipped, &why) == 0) {
		m->skipped += skipped;
		return 0;
	}
	if (m->lines.len == m->lines.cap)
		return err_set(e, ERR_LIMIT, "the list would have more than %u bytes",
			       ADVISORIES_MAX);
	m->broken++;
	(void)fputs("warning: ", stderr);
	show_text(path, stderr);
	(void)fputs(": ", stderr);
	show_text(why.msg, stderr);
	(void)fputc('\n', stderr);
	return 0;
}

static bool is_report(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

static int read_folder(struct import *m, const char *path, unsigned depth, struct err *e);

/* Links are not followed: a checkout has none that count. */
static int read_place(struct import *m, const char *path, bool named, unsigned depth, struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return err_sys(e, "%.160s", path);
	if (S_ISDIR(st.st_mode))
		return read_folder(m, path, depth, e);
	return S_ISREG(st.st_mode) && (named || is_report(path)) ? read_report(m, path, e) : 0;
}

static int read_folder(struct import *m, const char *path, unsigned depth, struct err *e)
{
	DIR *folder = opendir(path);
	const struct dirent *at;
	char place[PLACE_MAX];
	int result = 0;

	if (folder == NULL || depth == DEPTH_MAX) {
		if (folder != NULL)
			(void)closedir(folder);
		return err_sys(e, "%.160s", path);
	}
	while (result == 0 && (at = readdir(folder)) != NULL) {
		if (at->d_name[0] == '.')
			continue;
		if (snprintf(place, sizeof(place), "%s/%s", path, at->d_name) >= (int)sizeof(place))
			result = err_set(e, ERR_LIMIT, "%.160s: the path is too long", path);
		else
			result = read_place(m, place, false, depth + 1, e);
	}
	(void)closedir(folder);
	return result;
}

/* ---- the list */

/* Lines end with '\n', which sorts before every byte of them. */
static int compare(const void *one, const void *other)
{
	const char *a = *(const char *const *)one, *b = *(const char *const *)other;

	while (*a == *b && *a != '\n') {
		a++;
		b++;
	}
	return (unsigned char)*a - (unsigned char)*b;
}

static const char **sort_lines(const struct buf *lines, size_t *ret_n)
{
	const char *at = (const char *)lines->data, *end = at + lines->len;
	const char **list;
	size_t n = 0;

	for (const char *c = at; c < end; c++)
		n += *c == '\n';
	list = malloc((n + 1) * sizeof(*list));
	if (list == NULL)
		return NULL;
	*ret_n = 0;
	while (at < end) {
		list[(*ret_n)++] = at;
		at = (const char *)memchr(at, '\n', (size_t)(end - at)) + 1;
	}
	qsort(list, n, sizeof(*list), compare);
	for (size_t i = *ret_n = 0; i < n; i++)
		if (i == 0 || compare(&list[i], &list[*ret_n - 1]) != 0)
			list[(*ret_n)++] = list[i];
	return list;
}

static int write_list(struct saved_file *f, const char *const *list, size_t n, struct err *e)
{
	struct buf out = BUF_INIT(64U << 10);
	int result;

	buf_printf(&out, ADVISORIES_MAGIC "%lld %zu\n", (long long)time(NULL), n);
	result = saved_file_write(f, out.data, out.len, e);
	for (size_t i = 0; result == 0 && i < n; i++)
		result = saved_file_write(f, list[i], (size_t)(strchr(list[i], '\n') - list[i]) + 1,
					  e);
	buf_release(&out);
	if (result == 0 && fsync(f->fd) < 0)
		result = err_sys(e, "fsync");
	return result;
}

static int save(const struct import *m, const char *state_dir, size_t *ret_n, struct err *e)
{
	OWN_MEM const char **list = sort_lines(&m->lines, ret_n);
	struct saved_file f;
	char path[PLACE_MAX];
	int result;

	if (list == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	(void)snprintf(path, sizeof(path), "%s/advisories", state_dir);
	if (saved_file_open(&f, path, e) < 0)
		return -1;
	result = write_list(&f, list, *ret_n, e);
	if (result == 0)
		result = saved_file_commit(&f, 0644, e);
	saved_file_release(&f);
	return result;
}

static int check_state(const char *state_dir, struct err *e)
{
	struct stat st;

	if (stat(state_dir, &st) == 0 && S_ISDIR(st.st_mode))
		return 0;
	return err_set(e, ERR_NOT_FOUND, "there is no state directory %.160s: --state-dir names it",
		       state_dir);
}

int advisories_import(const char *state_dir, const char *const *paths, size_t n, struct err *e)
{
	struct import m = { .text = malloc(OSV_TEXT_MAX + 2) };
	size_t lines = 0;
	int result = m.text == NULL ? err_set(e, ERR_SYSTEM, "out of memory")
				    : check_state(state_dir, e);

	buf_init(&m.lines, ADVISORIES_MAX - 4096);
	for (size_t i = 0; result == 0 && i < n; i++)
		result = read_place(&m, paths[i], true, 0, e);
	if (result == 0 && m.lines.len == 0)
		result = err_set(e, ERR_INVALID,
				 "no reports of malicious packages (OSV JSON) found: the list is "
				 "not changed");
	if (result == 0)
		result = save(&m, state_dir, &lines, e);
	if (result == 0)
		(void)printf("%zu reports, %zu unreadable, %zu entries left out, %zu lines in "
			     "force\n",
			     m.reports, m.broken, m.skipped, lines);
	buf_release(&m.lines);
	free(m.text);
	return result;
}

int advisories_print(const char *state_dir, struct err *e)
{
	char path[PLACE_MAX], head[128], *end;
	struct advisories list;
	OWN_FD fd = -1;
	long long hours;
	ssize_t n;

	if (check_state(state_dir, e) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/advisories", state_dir);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT) {
		(void)puts("no advisories: cordon packages advisories import makes a list");
		return 0;
	}
	n = fd < 0 ? -1 : read(fd, head, sizeof(head));
	end = n < 0 ? NULL : memchr(head, '\n', (size_t)n);
	if (n < 0)
		return err_sys(e, "%.160s", path);
	if (end == NULL || !advisories_open(head, (size_t)(end - head) + 1, &list))
		return err_set(e, ERR_INVALID, "%.160s: not a list of advisories", path);
	hours = ((long long)time(NULL) - (long long)list.time_s) / 3600;
	(void)printf("%" PRIu64 " line%s, imported %lld hour%s ago\n", list.lines,
		     list.lines == 1 ? "" : "s", hours, hours == 1 ? "" : "s");
	return 0;
}

int advisories_clear(const char *state_dir, struct err *e)
{
	char path[PLACE_MAX];

	if (check_state(state_dir, e) < 0)
		return -1;
	(void)snprintf(path, sizeof(path), "%s/advisories", state_dir);
	if (unlink(path) == 0)
		(void)puts("the list of advisories is gone: no package is refused by it any more");
	else if (errno == ENOENT)
		(void)puts("no advisories");
	else
		return err_sys(e, "%.160s", path);
	return 0;
}
