#include "watch_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "builtin.h"
#include "file_msg.h"

static struct watch_table_entry table[BUILTIN_WATCHES_MAX];
static size_t count;

static struct watch_table_entry *find(int wd)
{
	for (size_t i = 0; i < count; i++)
		if (table[i].wd == wd)
			return &table[i];
	return NULL;
}

bool watch_table_add(int wd, const char *path)
{
	struct watch_table_entry *t = find(wd);
	char *copy;

	if (t == NULL && count == COUNT(table))
		return false;
	copy = strdup(path);
	if (copy == NULL)
		return false;
	if (t == NULL) {
		t = &table[count++];
		t->wd = wd;
	} else {
		free(t->path);
	}
	t->path = copy;
	return true;
}

const struct watch_table_entry *watch_table_find(int wd)
{
	return find(wd);
}

const struct watch_table_entry *watch_table_at(size_t i)
{
	return i < count ? &table[i] : NULL;
}

size_t watch_table_count(void)
{
	return count;
}

void watch_table_drop(int wd)
{
	struct watch_table_entry *t = find(wd);

	if (t == NULL)
		return;
	free(t->path);
	*t = table[--count];
}

static bool is_below(const char *path, const char *dir)
{
	size_t n = strlen(dir);

	return strncmp(path, dir, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

void watch_table_rename(const char *from, const char *to)
{
	for (size_t i = 0; i < count; i++) {
		char path[FILE_MSG_PATH_MAX];
		char *copy;
		int n;

		if (!is_below(table[i].path, from))
			continue;
		n = snprintf(path, sizeof(path), "%s%s", to, table[i].path + strlen(from));
		copy = n < 0 || (size_t)n >= sizeof(path) ? NULL : strdup(path);
		if (copy == NULL)
			continue;
		free(table[i].path);
		table[i].path = copy;
	}
}

int watch_table_below(const char *path)
{
	for (size_t i = 0; i < count; i++)
		if (is_below(table[i].path, path))
			return table[i].wd;
	return -1;
}
