// Where models are sent to, by clients that people have: the Hub, or whatever a command reaches.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "core/index.hpp"
#include "core/path.hpp"

#include "put_record.hpp"
#include "upload.hpp"

namespace shardweld::upload {

/// What is told while a model is sent.
struct Telling {
    std::function<void(std::string_view)> line;  ///< what a client says, secrets replaced
    std::function<void(std::string_view)> note;  ///< what people should know
    std::function<void(Bytes)> sent;             ///< bytes so far, never fewer than before
    /// Asked before a client is started; a reason ends the sending. May be empty.
    std::function<std::string()> why_stop = {};
};

class Store {
  public:
    Store() = default;
    virtual ~Store() = default;
    Store(const Store&) = delete;
    Store& operator=(const Store&) = delete;
    Store(Store&&) = delete;
    Store& operator=(Store&&) = delete;

    /// "to me/model", "with rclone copyto {} remote:x/{}": secrets replaced.
    [[nodiscard]] virtual std::string place() const = 0;
    /// The program that sends.
    [[nodiscard]] virtual const fs::path& client() const = 0;
    /// Sends a finished model and returns when all is there. SIGINT, SIGTERM and SIGHUP end the
    /// client, then the call. Errors as upload::upload: the model stays, and the message ends with
    /// the command that goes on.
    virtual void send(const fs::path& directory, const Telling& telling) = 0;

    /// Makes ready for send_ahead(): why no file can be sent before its model is finished; "" where
    /// it can.
    [[nodiscard]] virtual std::string prepare_ahead() { return ""; }
    /// Sends one finished file of a model that is not, so that send() has less to do. From any
    /// thread, one at a time; `is_over` is asked again and again, and ends the client and its
    /// children. Error(no_client), Error(interrupted).
    virtual void send_ahead(const fs::path& directory, const std::string& name,
                            const std::function<bool()>& is_over) = 0;
    /// What tells this place from all others.
    [[nodiscard]] virtual PutPlace own_place() const = 0;
    /// Writes down in a model's directory that this file, as it is now, was sent ahead; where
    /// send() finds that out by itself, nothing. Whether it is written.
    [[nodiscard]] virtual bool note_ahead(const fs::path& /*directory*/,
                                          const std::string& /*name*/) const {
        return true;
    }
};

/// The Hub, after check_access() of the request, whose errors it has; the directory is not looked
/// at.
std::unique_ptr<Store> hub_store(const UploadRequest& request, const Environment& environment);

/// A command that is run once for each file.
struct PutRequest {
    std::string command;                 ///< process::words_of splits it; one of its words has "{}"
    std::vector<std::string> kept_back;  ///< names of files, which stay here
    std::string record;                  ///< in the model's directory: what was put there
};

/// Why a text is no command of --put; "" where it is one.
std::string fault_of_put(const std::string& command);

/// What --put reaches. In each word of the command "{}" stands for a file: alone for its path, in a
/// longer word for its name below the model's directory. Weights go first, config.json and indices
/// last: who reads there sees no index without its files. What was put by the same command and has
/// not changed is not put again. Error(no_client) when its program is not to be found.
std::unique_ptr<Store> command_store(const PutRequest& request, const Environment& environment);

}  // namespace shardweld::upload
