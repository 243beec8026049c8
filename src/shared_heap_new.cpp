// The program's `new` and `delete`, through which values come to lie in a SharedHeap while one is
// filled; else they are those of the C++ library, or of what is preloaded. A part of programs, not
// of the library: whoever uses that has a `new` of his own.
#include <cstdlib>
#include <new>

#include <dlfcn.h>

#include "core/process/shared_heap.hpp"

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

namespace {

/// What the name stands for behind the program; null where the C++ library is a part of it.
template <typename Function>
Function* behind(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

void* operator new(std::size_t size) {
    if (void* const place = shardweld::allocate_in_shared_heap(size)) {
        return place;
    }
    static auto* const usual = behind<void*(std::size_t)>("_Znwm");
    if (usual != nullptr) {
        return usual(size);
    }
    if (void* const place = std::malloc(size == 0 ? 1 : size)) {
        return place;
    }
    throw std::bad_alloc();
}

void operator delete(void* place) noexcept {
    if (shardweld::is_in_shared_heap(place)) {
        return;
    }
    static auto* const usual = behind<void(void*)>("_ZdlPv");
    if (usual != nullptr) {
        usual(place);
    } else {
        std::free(place);
    }
}

// All others come down to these two; GCC asks for this one by name.
void operator delete(void* place, std::size_t /*size*/) noexcept {
    operator delete(place);
}

#endif
