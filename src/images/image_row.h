/* image_row.h - the template that the configuration of an image describes: environment, user,
 * working directory, and the command that the image offers. Called by image_make.c. */
#pragma once

#include "json.h"
#include "oci_config.h"
#include "store_template.h"

/* Texts of a row that are made from a configuration; the row borrows them. */
struct image_row {
	char user[OCI_USER_MAX];
	struct json command;
};

/* Fills in env, user, workdir and offered_command of the row; c must outlive it. */
void image_row_fill(struct image_row *r, const struct oci_config *c, struct store_template *row);
void image_row_release(struct image_row *r);
