#include "scan_files.hpp"

#include <atomic>
#include <future>
#include <mutex>
#include <optional>
#include <system_error>
#include <utility>

#include "shardweld/formats/containers/pickle.hpp"
#include "shardweld/mpi/comm.hpp"

namespace shardweld::app {

namespace {

using catalogue::Catalogue;

// A thread and its stack pay for more than a handful.
constexpr std::size_t kMany = 64;

class FileScans {
  public:
    FileScans(const formats::Location& location, const std::vector<std::string>& files)
        : location_(location), files_(files), scans_(files.size()) {}

    /// Takes files until none is left or one has failed. Any thread.
    void work(const std::function<void(Index)>& on_file) {
        const formats::PickleMemory memory;
        const formats::Format& format = formats::format_of(location_);
        for (std::size_t at = next_++; at < files_.size() && !has_failed_; at = next_++) {
            if (auto failure = mpi::error_of([&] {
                    on_file(static_cast<Index>(at));
                    scans_[at] = format.scan(location_, files_[at]);
                })) {
                note(at, std::move(*failure));
            }
        }
    }

    /// Once nobody works any more.
    std::vector<Catalogue> take() {
        if (failure_) {
            throw Error(std::move(failure_->second));
        }
        return std::move(scans_);
    }

  private:
    /// Files are taken in order, so that all before the first that fails are read in every run.
    void note(std::size_t at, Error failure) {
        const std::lock_guard lock(mutex_);
        has_failed_ = true;
        if (!failure_ || at < failure_->first) {
            failure_.emplace(at, std::move(failure));
        }
    }

    const formats::Location& location_;
    const std::vector<std::string>& files_;
    std::vector<Catalogue> scans_;
    std::atomic<std::size_t> next_{0};
    std::atomic<bool> has_failed_{false};
    std::mutex mutex_;
    std::optional<std::pair<std::size_t, Error>> failure_;  ///< with its file
};

}  // namespace

std::vector<Catalogue> scan_files(const formats::Location& location,
                                  const std::vector<std::string>& files, bool has_spare_core,
                                  const std::function<void(Index)>& on_file) {
    FileScans scans(location, files);
    std::future<void> other;
    if (has_spare_core && files.size() > kMany) {
        try {
            other = std::async(std::launch::async, [&] { scans.work([](Index) {}); });
        } catch (const std::system_error&) {
            // No memory for a stack: this thread reads them all.
        }
    }
    scans.work(on_file);
    if (other.valid()) {
        other.get();
    }
    return scans.take();
}

}  // namespace shardweld::app
