#include "image_row.h"

#include <stdio.h>
#include <string.h>

/* A group beside the user is left out: programs get the groups that the image's files give the
 * user. */
static void set_user(struct image_row *r, const char *user)
{
	size_t n = strcspn(user, ":");

	(void)snprintf(r->user, sizeof(r->user), "%.*s", (int)n, user);
	if (r->user[0] == '\0')
		(void)snprintf(r->user, sizeof(r->user), "root");
}

static void set_command(struct image_row *r, const struct buf *command)
{
	json_init_heap(&r->command, (size_t)OCI_COMMAND_BYTES_MAX * 8);
	json_open(&r->command, NULL, '[');
	for (size_t at = 0; at < command->len;) {
		const char *word = (const char *)command->data + at;
		size_t n = strnlen(word, command->len - at);

		json_bytes(&r->command, NULL, word, n);
		at += n + 1;
	}
	json_close(&r->command, ']');
}

void image_row_fill(struct image_row *r, const struct oci_config *c, struct store_template *row)
{
	set_user(r, c->user);
	set_command(r, &c->command);
	row->env = c->env.len > 0 ? (const void *)c->env.data : "";
	row->env_len = c->env.len;
	row->user = r->user;
	row->workdir = c->workdir;
	row->offered_command = c->command.len > 0 && json_ok(&r->command) ? r->command.text : "";
}

void image_row_release(struct image_row *r)
{
	json_release(&r->command);
}
