// Memory that processes of one machine have in common at one address: values that one process makes
// in it, the others have as they are, with all that they point to.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "core/index.hpp"

namespace shardweld {

// Sanitizers know neither these addresses nor another `new` than their own.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kHasSharedHeaps = false;
#else
inline constexpr bool kHasSharedHeaps = true;
#endif

/// A heap that one process fills and others open. Each may change and destroy the values, which the
/// others do not see; what is changed takes memory again. Values must not point to anything
/// outside, and have no virtual functions. A process keeps a heap that nobody holds any more until
/// the next one is filled or opened: what was moved out of it may live longer than its owner.
class SharedHeap {
  public:
    /// What other processes open a heap by.
    struct Place {
        std::int64_t process = 0;
        int descriptor = -1;
        std::uint64_t address = 0;
        Bytes size = 0;
        std::uint64_t token = 0;  ///< says that it is this one
    };

    /// Runs `make`, whose allocations by `new` in this thread lie in a heap of their own, and keeps
    /// the root that it returns. Error(memory) where that cannot be had, so that callers do without
    /// it: the program has another `new` (shared_heap_new.cpp), the system no memfd_create, or too
    /// little memory. What `make` throws is thrown.
    static std::shared_ptr<SharedHeap> fill(const std::function<void*()>& make);
    /// A heap of another process, which must hold it until then. Error(memory) where it cannot be
    /// reached: in another container, or the address is taken.
    static std::shared_ptr<SharedHeap> open(const Place& place);
    /// Gives up at once what nobody holds: nothing was moved out of it.
    static void end_unheld();

    SharedHeap() = default;
    ~SharedHeap();
    SharedHeap(const SharedHeap&) = delete;
    SharedHeap& operator=(const SharedHeap&) = delete;

    /// Where a heap lies that this process filled.
    [[nodiscard]] const Place& place() const { return place_; }
    /// What `make` returned, at the same address in each process.
    [[nodiscard]] void* root() const;
    /// No other process opens it from now on.
    void close();

  private:
    class Filling;
    friend void* allocate_in_shared_heap(std::size_t size);

    void map_privately(int descriptor);

    Place place_;
    Bytes mapped_ = 0;
};

/// For `operator new`: memory of the heap that this thread fills; null: it fills none. Throws
/// std::bad_alloc.
void* allocate_in_shared_heap(std::size_t size);
/// For `operator delete`: whether an address lies where these heaps do, so that nothing is freed.
bool is_in_shared_heap(const void* address);

}  // namespace shardweld
