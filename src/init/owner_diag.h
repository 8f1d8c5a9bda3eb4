/* owner_diag.h - asks the kernel which socket is one end of a TCP connection. Called by
 * owner_finder.c. */
#pragma once

#include "owner_msg.h"

/* Finds the socket at the asking program's end of the connection, by sock_diag(7): *ret_inode is
 * its number, as in links of /proc/PID/fd, *ret_uid the user who made it. diag: the netlink socket
 * at INIT_FD_DIAG. Returns OWNER_FOUND, OWNER_GONE (there is no such connection, or no process
 * has it open) or OWNER_UNSUPPORTED. Does not block. */
enum owner_result owner_diag_find(int diag, const struct owner_question *q, uint32_t *ret_inode,
				  uint32_t *ret_uid);
