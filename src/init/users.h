/* users.h - names and numbers of the cell's users, from its own /etc/passwd and /etc/group. The
 * files are the cell's and may say anything: parsing is bounded and pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USERS_GROUPS_MAX 32

struct users_entry {
	uint32_t uid, gid;
	char name[64], home[256], shell[256];
};

/* Finds a user by name or number in the text of a passwd file. The first line that fits counts;
 * malformed lines do not. */
bool users_find(const char *text, size_t len, const char *who, struct users_entry *ret);

/* Collects the groups that name is a member of from the text of a group file. */
size_t users_groups(const char *text, size_t len, const char *name, uint32_t *ret_gids, size_t cap);

/* A user that no file knows: number, no home. False if who is not a number below 2^32 - 1. */
bool users_bare(const char *who, struct users_entry *ret);
