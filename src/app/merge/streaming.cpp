#include "streaming.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "app/messages/table.hpp"
#include "app/runtime/polite.hpp"
#include "core/system.hpp"
#include "core/text.hpp"
#include "execute/journal.hpp"
#include "io/digest_stream.hpp"
#include "io/paths.hpp"
#include "mpi/share.hpp"
#include "mpi/sleeping.hpp"
#include "plan/plan.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"

namespace shardweld::app {

namespace {

// In the journal: what this run and earlier ones sent.
constexpr const char* kRecord = "sent.jsonl";
constexpr double kLeastNap = 0.5;
constexpr double kNapPerLook = 4;  // looking takes at most a fifth of the time
constexpr double kMostWait = 300;  // for the file under way, when all is written
constexpr int kMostFailures = 3;   // one after the other
constexpr auto kBlink = std::chrono::milliseconds(50);

/// A file of the output that is whole, and what tells it from any other of its name.
struct WholeFile {
    std::string name;
    upload::PutFile state;
};

/// The files all of whose blocks are here, and none that are `left_out`.
std::vector<WholeFile> whole_files(const plan::Plan& plan,
                                   const std::vector<execute::DoneBlock>& blocks,
                                   const std::set<std::size_t>& left_out) {
    struct FileSeen {
        Bytes missing = 0;
        io::DigestStream digest;
    };
    const execute::BlockPlaces places(plan);
    std::vector<FileSeen> seen(plan.placement.files.size());
    for (std::size_t at = 0; at < seen.size(); ++at) {
        const outputs::PlacedFile& file = plan.placement.files[at];
        seen[at].digest.add(std::as_bytes(std::span(file.header)));
        for (const std::uint32_t tensor : file.tensors) {
            seen[at].missing += plan.tensor(tensor).bytes();
        }
    }
    for (const execute::DoneBlock& block : blocks) {
        FileSeen& file = seen[plan.placement.slots[block.tensor].file];
        file.missing -= plan.bytes_of(places.slice(block));
        file.digest.add(block.digest);
    }
    std::vector<WholeFile> whole;
    for (std::size_t at = 0; at < seen.size(); ++at) {
        const outputs::PlacedFile& file = plan.placement.files[at];
        if (seen[at].missing == 0 && !file.tensors.empty() && !left_out.contains(at)) {
            whole.push_back({file.name, {file.size, 0, io::hex(seen[at].digest.digest())}});
        }
    }
    return whole;
}

/// The files that an earlier run began.
std::set<std::size_t> files_begun(const Draft& draft) {
    const outputs::Placement& placement = draft.output.plan.placement;
    std::set<std::size_t> files;
    for (const execute::DoneBlock& block : draft.resumption.blocks) {
        files.insert(placement.slots[block.tensor].file);
    }
    return files;
}

}  // namespace

/// The thread, and what it has done.
class Streaming::Sender {
  public:
    Sender(const Draft& draft, SharedStore store)
        : plan_(draft.output.plan),
          directory_(draft.partial->path()),
          journal_(draft.partial->journal()),
          session_(draft.resumption.session),
          store_(std::move(store)),
          begun_(files_begun(draft)),
          record_(journal_ / kRecord, store_->own_place()),
          thread_([this](const std::stop_token& over) { run(over); }) {}

    /// Lets no further file begin.
    void close() {
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
        is_woken_.notify_all();
    }
    /// The name of the file under way; "" where none is.
    std::string sending() {
        const std::lock_guard lock(mutex_);
        return sending_;
    }
    /// Ends the client, if there is one, and the thread.
    void end() {
        close();
        thread_.request_stop();
        if (thread_.joinable()) {
            thread_.join();
        }
    }

    /// After end(): the files that are at the store as they are now, by the whole journal.
    [[nodiscard]] std::vector<WholeFile> sent() const {
        auto files = whole_files(plan_, execute::read_journal(journal_, plan_).blocks, {});
        std::erase_if(files,
                      [&](const WholeFile& file) { return !record_.has(file.name, file.state); });
        return files;
    }
    /// After end(): what went wrong, the first time.
    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] const upload::Store& store() const { return *store_; }

  private:
    void run(const std::stop_token& over);
    [[nodiscard]] std::vector<WholeFile> look() const;
    void send_all(const std::vector<WholeFile>& files, const std::stop_token& over);
    void send(const WholeFile& file, const std::stop_token& over);
    bool begin(const std::string& name);
    void note_failure(const Error& error);

    const plan::Plan& plan_;
    fs::path directory_;
    fs::path journal_;
    Index session_;
    SharedStore store_;
    std::set<std::size_t> begun_;
    upload::PutRecord record_;
    std::set<std::string> tried_;
    int n_failed_ = 0;
    std::string failure_;
    std::mutex mutex_;
    std::condition_variable is_woken_;
    bool is_closed_ = false;
    std::string sending_;
    std::jthread thread_;  // the last member: it uses the others
};

void Streaming::Sender::run(const std::stop_token& over) {
    be_polite();
    double nap = kLeastNap;
    std::unique_lock lock(mutex_);
    while (
        !is_woken_.wait_for(lock, std::chrono::duration<double>(nap), [&] { return is_closed_; })) {
        lock.unlock();
        const auto failed = mpi::error_of([&] {
            const double begun = wall_seconds();
            const std::vector<WholeFile> files = look();
            nap = std::max(kLeastNap, kNapPerLook * (wall_seconds() - begun));
            send_all(files, over);
        });
        if (failed) {
            note_failure(*failed);
        }
        lock.lock();
        is_closed_ = is_closed_ || n_failed_ == kMostFailures;
    }
}

/// What has become whole in this run.
std::vector<WholeFile> Streaming::Sender::look() const {
    return whole_files(plan_, execute::read_journal(journal_, plan_, session_).blocks, begun_);
}

void Streaming::Sender::send_all(const std::vector<WholeFile>& files, const std::stop_token& over) {
    for (const WholeFile& file : files) {
        const bool is_known = tried_.contains(file.name) || record_.has(file.name, file.state);
        if (!is_known && n_failed_ < kMostFailures) {
            send(file, over);
        }
    }
}

void Streaming::Sender::send(const WholeFile& file, const std::stop_token& over) {
    if (!begin(file.name)) {
        return;
    }
    tried_.insert(file.name);
    const auto failed = mpi::error_of([&] {
        store_->send_ahead(directory_, file.name, [&] { return over.stop_requested(); });
        record_.add(file.name, file.state);
        n_failed_ = 0;
    });
    if (failed && !over.stop_requested()) {
        note_failure(*failed);
    }
    const std::lock_guard lock(mutex_);
    sending_.clear();
}

/// Whether this file may still begin.
bool Streaming::Sender::begin(const std::string& name) {
    const std::lock_guard lock(mutex_);
    if (!is_closed_) {
        sending_ = name;
    }
    return !is_closed_;
}

void Streaming::Sender::note_failure(const Error& error) {
    ++n_failed_;
    if (failure_.empty()) {
        failure_ = error.what();
    }
}

Streaming::Streaming(Draft& draft, SharedStore store) : draft_(draft) {
    Session session = draft.output.session;
    if (!session.options.streams) {
        return;
    }
    const auto hosts = mpi::gather(session.comm, session.comm.host());
    if (session.comm.rank() != 0) {
        return;
    }
    std::string why_not = store->prepare_ahead();
    if (!session.options.sync && std::ranges::count(hosts, hosts.front()) < std::ssize(hosts)) {
        why_not = "with --no_fsync this host need not see what others have written";
    } else if (!session.options.put.empty() && session.options.overwrite &&
               io::kind_at(draft.partial->target()) != io::FileKind::none) {
        why_not = "the place of --put may hold the model that is replaced here";
    }
    if (why_not.empty()) {
        // The others go on already: nothing may be thrown here.
        const auto failed =
            mpi::error_of([&] { sender_ = std::make_unique<Sender>(draft, std::move(store)); });
        why_not = failed ? failed->full_text() : "";
    }
    if (!sender_) {
        session.log.info("note: --stream: " + why_not + "; all files are sent behind the merge");
    }
}

Streaming::~Streaming() {
    if (sender_) {
        sender_->end();
    }
}

void Streaming::finish(const mpi::WhyStop& why_stop) {
    const Session& session = draft_.output.session;
    if (!session.options.streams) {
        return;
    }
    const auto is_asked = [&] { return !why_stop().empty(); };
    const auto wait = [&](const mpi::IsCalled& is_called) {
        if (sender_) {
            wait_for_client([&] { return is_called() || is_asked(); });
            sender_->end();
            if (const auto failed = mpi::error_of([&] { settle(); })) {
                session.log.info("note: --stream: " + failed->full_text() +
                                 "; what was sent is sent again");
            }
            sender_.reset();
        }
    };
    mpi::while_others_sleep(session.comm, wait, is_asked);
    session.watch.lap("stream");
}

/// The model is whole: it does not wait long for the file that is under way.
void Streaming::wait_for_client(const std::function<bool()>& is_asked) {
    Log& log = draft_.output.session.log;
    sender_->close();
    const std::string name = sender_->sending();
    if (name.empty()) {
        return;
    }
    log.info("waiting for " + name + ", which is being sent (" + duration_text(kMostWait) +
             " at most)");
    const double end = wall_seconds() + kMostWait;
    while (!sender_->sending().empty() && wall_seconds() < end && !is_asked()) {
        std::this_thread::sleep_for(kBlink);
    }
    if (!sender_->sending().empty()) {
        log.info("note: " + name +
                 " is not sent yet: its client is ended, and it is sent again "
                 "behind the merge");
    }
}

/// Says what was sent, and leaves a note of it to the upload.
void Streaming::settle() {
    const Session& session = draft_.output.session;
    if (!sender_->failure().empty()) {
        session.log.info("note: --stream: " + sender_->failure() +
                         "; what was not sent follows behind the merge");
    }
    // What clients have left beside what they sent is no part of the model.
    std::set<fs::path> names;
    for (const auto& [name, identity] : draft_.files) {
        names.insert(name);
    }
    draft_.partial->keep_only(names);
    const auto sent = sender_->sent();
    Bytes bytes = 0;
    bool is_written = true;
    for (const WholeFile& file : sent) {
        bytes += file.state.size;
        is_written = is_written && sender_->store().note_ahead(draft_.partial->path(), file.name);
    }
    if (!is_written) {
        session.log.info("note: " + std::string(publish::kPutRecord) +
                         " cannot be written: what was sent is sent again");
    }
    if (const auto note = io::identity_at(*draft_.directory, publish::kPutRecord)) {
        draft_.files[publish::kPutRecord] = *note;
    }
    session.log.info("sent while merging: " + std::to_string(sent.size()) + " of " +
                     counted(draft_.output.plan.placement.files.size(), "file") + ", " +
                     human_bytes(bytes) + ", " + sender_->store().place());
}

}  // namespace shardweld::app
