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
#include "mpi/sleeping.hpp"
#include "plan/plan.hpp"
#include "publish/report_file.hpp"
#include "shardweld/error.hpp"
#include "upload/put_record.hpp"

namespace shardweld::app {

namespace {

constexpr const char* kRecord =
    "sent.jsonl";  // in the journal: what this run and earlier ones sent
constexpr double kLeastNap = 0.5;
constexpr double kNapPerLook = 20;  // looking takes at most a twentieth of a core
constexpr double kMostWait = 300;   // for the file under way, when all is written
constexpr int kMostFailures = 3;    // one after the other
constexpr auto kBlink = std::chrono::milliseconds(50);

/// A file of the output that is whole, and what tells it from any other of its name.
struct WholeFile {
    std::string name;
    upload::PutFile state;
};

/// The files all of whose blocks are here, in the order of the line, and none that are `left_out`.
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

/// The thread, and what it has done. All but the constructor and run() may be called at any time.
class Streaming::Sender {
  public:
    Sender(const Draft& draft, SharedStore store)
        : plan_(draft.output.plan),
          directory_(draft.partial->path()),
          journal_(draft.partial->journal()),
          session_(draft.resumption.session),
          store_(std::move(store)),
          begun_(files_begun(draft)),
          record_(journal_ / kRecord),
          thread_([this](const std::stop_token& over) { run(over); }) {}

    /// Lets no further file begin.
    void close() {
        const std::lock_guard lock(mutex_);
        is_closed_ = true;
        is_woken_.notify_all();
    }
    /// Of the file under way; "" where none is.
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
        std::erase_if(files, [&](const WholeFile& file) {
            return !record_.has(store_->place(), file.name, file.state);
        });
        return files;
    }
    /// After end(): what went wrong, the first time.
    [[nodiscard]] const std::string& failure() const { return failure_; }
    [[nodiscard]] const upload::Store& store() const { return *store_; }

  private:
    void run(const std::stop_token& over);
    void look(const std::stop_token& over);
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
        const double begun = thread_cpu_seconds();
        if (const auto failed = mpi::error_of([&] { look(over); })) {
            note_failure(*failed);
        }
        nap = std::max(kLeastNap, kNapPerLook * (thread_cpu_seconds() - begun));
        lock.lock();
        is_closed_ = is_closed_ || n_failed_ == kMostFailures;
    }
}

/// Sends what has become whole.
void Streaming::Sender::look(const std::stop_token& over) {
    const auto blocks = execute::read_journal(journal_, plan_, session_).blocks;
    for (const WholeFile& file : whole_files(plan_, blocks, begun_)) {
        const bool is_known =
            tried_.contains(file.name) || record_.has(store_->place(), file.name, file.state);
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
        record_.add(store_->place(), file.name, file.state);
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
    if (!session.options.streams || session.comm.rank() != 0) {
        return;
    }
    if (const std::string why_not = store->why_not_ahead(); !why_not.empty()) {
        session.log.warning("--stream: " + why_not + "; all files are sent behind the merge");
        return;
    }
    sender_ = std::make_unique<Sender>(draft, std::move(store));
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
        if (!sender_) {
            return;
        }
        sender_->close();
        const double begun = wall_seconds();
        if (const std::string name = sender_->sending(); !name.empty()) {
            session.log.info("waiting for " + name + ", which is being sent");
        }
        while (!sender_->sending().empty() && wall_seconds() < begun + kMostWait && !is_called() &&
               !is_asked()) {
            std::this_thread::sleep_for(kBlink);
        }
        sender_->end();
        settle();
        sender_.reset();
    };
    mpi::while_others_sleep(session.comm, wait, is_asked);
    mpi::collectively(session.comm, [&] { mpi::stop_if_asked(why_stop); });
    session.watch.lap("stream");
}

/// Says what was sent, and leaves a note of it to the upload.
void Streaming::settle() {
    const Session& session = draft_.output.session;
    if (!sender_->failure().empty()) {
        session.log.warning("--stream: " + sender_->failure() +
                            "; what was not sent follows behind the merge");
    }
    const auto sent = sender_->sent();
    Bytes bytes = 0;
    bool is_written = true;
    for (const WholeFile& file : sent) {
        bytes += file.state.size;
        is_written = is_written && sender_->store().note_ahead(draft_.partial->path(), file.name);
    }
    if (!is_written) {
        session.log.warning(std::string(publish::kPutRecord) +
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
