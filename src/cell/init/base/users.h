/* users.h - finds users and groups in the texts of the cell's /etc/passwd and /etc/group. The files
 * are the cell's and may hold anything: parsing is bounded. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define USERS_GROUPS_MAX 32

struct users_entry {
	uint32_t uid, gid;
	char name[64], home[256], shell[256];
};

/* Find a user by name or number in the text of a passwd file: the first line that matches.
 * Malformed lines are skipped. */
bool users_find(const char *text, size_t len, const char *who, struct users_entry *ret);

/* Collect the groups that name is a member of from the text of a group file. */
size_t users_groups(const char *text, size_t len, const char *name, uint32_t *ret_gids, size_t cap);

/* A user by number, without a line in the file. Its home is "/". False if who is not a number below
 * 2^32 - 1. */
bool users_bare(const char *who, struct users_entry *ret);
