/* user_text.h - adds the users that sessions need to the texts of passwd, group and shadow of an
 * image. Existing lines stay as they are. Pure, for untrusted text. Called by op_arrange.c. */
#pragma once

#include "lib/base/buf.h"

#define USER_TEXT_MAX (1U << 20) /* of passwd and group: thousands of users */
#define USER_TEXT_USER "user"	 /* who commands run as, unless they say otherwise */

struct user_text {
	uint32_t uid, gid; /* of "user": 1000, or the next free one */
	const char *shell; /* of added users */
	const char *home;  /* of "user" */
};

/* Is there a line that begins with "name:"? */
bool user_text_has(const char *text, size_t len, const char *name);

/* The ids that "user" has or gets. *u: shell and home are set before. */
void user_text_choose(const char *passwd, size_t passwd_len, const char *group, size_t group_len,
		      struct user_text *u);

/* Each writes the whole new text: the old one, with lines added behind. */
void user_text_passwd(const char *old, size_t len, const struct user_text *u, struct buf *ret);
/* "user" also becomes a member of the groups sudo and wheel, where there are such. */
void user_text_group(const char *old, size_t len, const struct user_text *u, struct buf *ret);
void user_text_shadow(const char *old, size_t len, struct buf *ret);
void user_text_gshadow(const char *old, size_t len, struct buf *ret);
