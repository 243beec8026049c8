// A model's files as a file system that the kernel asks for them.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

#include "app/settings/job.hpp"
#include "core/index.hpp"
#include "core/path.hpp"
#include "shardweld/error.hpp"

#include "proof.hpp"
#include "strips.hpp"
#include "unwritten_files.hpp"

struct fuse_entry_param;
struct fuse_file_info;
struct fuse_lowlevel_ops;
struct fuse_req;
struct fuse_session;

namespace shardweld::mount {

/// A mount, from its construction to its destruction. Its threads begin with the signals that the
/// constructing one lets through.
class Server {
  public:
    /// Mounts at `point`, as the job asks for it, and answers. `on_failure` is told of reads that
    /// failed, by any thread, and `on_end` that somebody has unmounted it, by another.
    /// Error(unsupported) where it cannot be mounted.
    Server(UnwrittenFiles& files, Proof& proof, const app::Job& job, fs::path point,
           std::function<void(const Error&)> on_failure, std::function<void()> on_end);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

  private:
    /// A directory or a file; the kernel's number of it is its place in tree_ and one.
    struct TreeNode {
        fs::path path = {};                    ///< below the root
        std::uint64_t parent = 1;              ///< the root is its own
        std::optional<std::size_t> file = {};  ///< those of files_, then kTold; none: a directory
    };
    /// A read that nobody has answered yet.
    struct PendingRead {
        fuse_req* request = nullptr;
        std::uint64_t number = 0;  ///< the kernel's, of the file
        Bytes begin = 0;
        Bytes end = 0;
        double since = 0;
    };
    static const fuse_lowlevel_ops& operations();
    static Server& of(fuse_req* request);

    std::uint64_t add(const fs::path& path, std::optional<std::size_t> file);
    [[nodiscard]] const TreeNode& at(std::uint64_t number) const { return tree_[number - 1]; }
    [[nodiscard]] std::optional<std::size_t> told_at(std::uint64_t number) const;
    [[nodiscard]] fuse_entry_param entry_of(std::uint64_t number) const;

    bool try_to_mount(bool ends_with_process);
    void look_up(fuse_req* request, std::uint64_t parent, const char* name) const;
    void list(fuse_req* request, std::uint64_t number, std::size_t size, off_t offset) const;
    void open(fuse_req* request, std::uint64_t number, fuse_file_info* opened);
    void read(const PendingRead& asked);
    void answer(Index ticket, const PendingRead& asked);
    bool take(Index ticket);
    void fail(const PendingRead& asked, const Error& error);
    void watch();

    UnwrittenFiles& files_;
    Proof& proof_;
    const app::Job& job_;
    fs::path point_;
    Index modified_ns_;
    std::function<void(const Error&)> on_failure_;
    std::function<void()> on_end_;
    std::vector<TreeNode> tree_;
    std::map<fs::path, std::uint64_t> numbers_;
    fuse_session* session_ = nullptr;
    Strips strips_;
    std::atomic<bool> is_over_ = false;
    std::mutex mutex_;  ///< of what follows, to the threads
    std::map<Index, PendingRead> asked_;
    std::deque<Index> waiting_;  ///< those of them that no thread has begun with
    Index n_asked_ = 0;
    unsigned n_readers_ = 0;
    bool is_watched_ = false;
    bool is_at_end_ = false;
    std::condition_variable begins_;
    std::thread loop_, watch_;
};

}  // namespace shardweld::mount
