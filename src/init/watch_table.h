/* watch_table.h - which directories below one are watched, by number and by path. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

struct watch_table_entry {
	int wd;
	char *path; /* relative to the top, which is "" */
};

/* Adds one, or gives a known number another path. False if there is no room. */
bool watch_table_add(int wd, const char *path);

/* The entry of a number or, in the order they were added, of a position; NULL if there is none. */
const struct watch_table_entry *watch_table_find(int wd);
const struct watch_table_entry *watch_table_at(size_t i);
size_t watch_table_count(void);

void watch_table_drop(int wd);

/* A directory is now elsewhere: all paths at or below `from` begin with `to`. Those that become too
 * long stay as they are. */
void watch_table_rename(const char *from, const char *to);

/* Any entry at or below a path: for dropping them one by one. -1 if there is none. */
int watch_table_below(const char *path);
