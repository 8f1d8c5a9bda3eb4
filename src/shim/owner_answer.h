/* owner_answer.h - answers cordon-egress's questions which program made a connection (owner_msg.h).
 * The connections of a guest are the shim's own, and the guest's agent said for which program each
 * one is. Of a guest that shares the cell's network the shim does not know it. Called by
 * requests.c.
 */
#pragma once

/* Takes the socket fd, in place of an earlier one; -1: none came. */
void owner_answer_listen(int fd);
