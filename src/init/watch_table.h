/* watch_table.h - the table of watched directories of watch.c, by watch descriptor and by path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct watch_table_entry {
	int wd;
	char *path; /* relative to the top, which is "" */
};

/* Adds a directory, or changes the path of a known watch descriptor. False if the table is full. */
bool watch_table_add(int wd, const char *path);

/* The entry of a watch descriptor, or at an index; NULL if there is none. New entries are added at
 * the end; watch_table_drop() moves the last one to the place of the dropped one. */
const struct watch_table_entry *watch_table_find(int wd);
const struct watch_table_entry *watch_table_at(size_t i);
size_t watch_table_count(void);

void watch_table_drop(int wd);

/* A directory was moved: paths at or below `from` now begin with `to`. Paths that would become too
 * long are not changed. */
void watch_table_rename(const char *from, const char *to);

/* The watch descriptor of any entry at or below a path; -1 if there is none. */
int watch_table_below(const char *path);
