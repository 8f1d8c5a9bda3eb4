/* template.h - opens a template: read-only layers, each with the path at which a cell has it.
 * Called by cordon run and cordon serve. The keeper gets the descriptors. */
#pragma once

#include "cell/template/node_ca.h"
#include "lib/wire/keeper_msg.h"

#define TEMPLATE_ROOT_NAME_MAX 32

struct template
{
	uint32_t nlayers;
	/* The first layer's, in host_roots_open()'s folder. Each content has its own. */
	char name[TEMPLATE_ROOT_NAME_MAX];
	int fds[CELL_LAYERS_MAX]; /* owned, the first holds a shared lock on its directory */
	char at[CELL_LAYERS_MAX][CELL_PLACE_MAX];
};

/* Open a template by name. "Host" is the only one. authority: a CA that its programs trust
 * beside those of the machine, or NULL. */
int template_open(const char *name, const struct node_ca *authority, struct template *ret,
		  struct err *e) MUST_USE;
void template_release(struct template *t);

/* The machine's own /usr, with a root directory and an /etc made for cells. */
int host_open(const struct node_ca *authority, struct template *ret, struct err *e) MUST_USE;

/* Open the folder with host_open()'s root directories, and nothing else. The caller owns it. */
int host_roots_open(int *ret_fd, struct err *e) MUST_USE;

/* Changes when the machine's packages do, or what host_open() takes from /etc. */
uint64_t host_stamp(const struct node_ca *authority);
