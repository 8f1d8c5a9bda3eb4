/* file_names.h - translates numbers of users and groups to names and back, by the cell's
 * /etc/passwd and /etc/group. The files are the cell's and may hold anything: parsing is bounded.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* In both files a line begins with name, password and number. The first line that matches is used.
 * Lines whose name is empty, has a NUL or does not fit into cap bytes are skipped. Pure. */
bool file_names_find(const char *text, size_t len, uint32_t id, char *ret_name, size_t cap);
bool file_names_number(const char *text, size_t len, const char *name, uint32_t *ret_id);

/* Find them by the cell's files, read once. "" for a number without a name. */
const char *file_names_user(uint32_t uid);
const char *file_names_group(uint32_t gid);

/* The text of the cell's /etc/passwd, or of its first 64 KiB. "" if it cannot be read. */
const char *file_names_passwd(size_t *ret_len);

/* Read "user", "user:group" or ":group", names or numbers. A missing part is left unchanged. False
 * if a name is not known. */
bool file_names_owner(const char *text, uint32_t *ret_uid, uint32_t *ret_gid);
