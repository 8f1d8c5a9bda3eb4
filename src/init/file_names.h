/* file_names.h - names for the numbers that own files, and back, from the cell's /etc/passwd and
 * /etc/group. The files are the cell's: parsing is bounded and pure, and a name may be anything. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Both files begin a line with name, password and number. The first line that fits counts; names
 * that are empty, hold a NUL or do not fit into cap bytes do not. */
bool file_names_find(const char *text, size_t len, uint32_t id, char *ret_name, size_t cap);
bool file_names_number(const char *text, size_t len, const char *name, uint32_t *ret_id);

/* The same with the cell's files, read once. A number without a name has the name "". */
const char *file_names_user(uint32_t uid);
const char *file_names_group(uint32_t gid);

/* The text of the cell's /etc/passwd, or of its first 64 KiB; "" if it cannot be read. */
const char *file_names_passwd(size_t *ret_len);

/* Reads "user", "user:group" or ":group", names or numbers, into what is given. A user alone leaves
 * *ret_gid. False if a name is not known. */
bool file_names_owner(const char *text, uint32_t *ret_uid, uint32_t *ret_gid);
