// Files of a merge's output that are sent while others are still written (--stream).
#pragma once

#include <functional>
#include <memory>

#include "mpi/free_run.hpp"

#include "publishing.hpp"
#include "uploading.hpp"

namespace shardweld::app {

/// Sends the first output's files of weights, each once it is whole, from a second thread of the
/// first rank, nice to the merge. A file is whole when the journal has all blocks of its tensors,
/// written by this run: what an earlier run began is read back first, and sent with the rest.
class Streaming {
  public:
    /// Collective. `draft` has begun, and outlives this. `store` is the first rank's. Without
    /// --stream nothing is sent; with it, a reason for sending nothing is said.
    Streaming(Draft& draft, SharedStore store);
    /// Ends the client that is at work.
    ~Streaming();
    Streaming(const Streaming&) = delete;
    Streaming& operator=(const Streaming&) = delete;
    Streaming(Streaming&&) = delete;
    Streaming& operator=(Streaming&&) = delete;

    /// Collective, behind complete_drafts. Begins no further file, waits for the one under way, but
    /// not for long and not when a rank has a reason to stop, and writes down in the draft what was
    /// sent, so that the upload of the finished model sends the rest. What failed is said, and no
    /// error: that upload tries again.
    void finish(const mpi::WhyStop& why_stop);

  private:
    class Sender;
    void wait_for_client(const std::function<bool()>& is_asked);
    void settle();

    Draft& draft_;
    std::unique_ptr<Sender> sender_;
};

}  // namespace shardweld::app
