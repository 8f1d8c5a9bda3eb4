/* arrange.h - the layer on top of an image that makes sessions of it as usable as those of the host
 * template: users, directories, names of hosts, the node's certificate authority. For untrusted
 * images; in a worker. Called by op_arrange.c. */
#pragma once

#include "layer_tree.h"
#include "storage_jail.h"

#define ARRANGE_LINK_MAX 16
#define ARRANGE_CERT_MAX 16384

/* The authority that programs shall trust, as cordon serve passes it: a line with the name by which
 * OpenSSL finds the certificate, then the certificate in PEM. */
struct arrange_authority {
	char link[ARRANGE_LINK_MAX]; /* "": there is none */
	char cert[ARRANGE_CERT_MAX];
};

int arrange_authority_read(const char *text, size_t len, struct arrange_authority *ret,
			   struct err *e) MUST_USE;

/* Fills the tree, which is empty and has the image's layers below it. */
int arrange(struct layer_tree *t, const struct storage_ids *ids, const struct arrange_authority *a,
	    struct err *e) MUST_USE;
