// Keep code loaded that is registered for good.

#pragma once

#include <dlfcn.h>

namespace collage {

// Keeps the library that has `symbol` loaded for good. What the library registered may outlive the
// library module that brought the code.
inline void StayLoaded(void* symbol) {
  Dl_info info;
  if (dladdr(symbol, &info) == 0) return;
  dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_NODELETE);
}

}  // namespace collage
