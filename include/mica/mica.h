/* mica.h - every public header.
 * SPDX-License-Identifier: MIT
 */
#ifndef MICA_MICA_H
#define MICA_MICA_H

#include <mica/dtype.h>
#include <mica/memory.h>
#include <mica/status.h>

#endif
