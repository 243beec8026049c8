#include "dcp_file.hpp"

#include <utility>

#include "core/text.hpp"
#include "shardweld/error.hpp"

namespace shardweld::outputs::torch {

namespace {

/// What torch calls archives that it writes to streams.
constexpr const char* kArchive = "archive";

std::string key_of(const TrainingTensor& tensor) {
    return joined(tensor.path, ".");
}

/// The name of a file beside `.metadata`.
std::string relative_name(const TrainingSave& save, const std::string& file) {
    const std::string directory = save.directory.empty() ? "" : save.directory + "/";
    if (!file.starts_with(directory)) {
        throw Error(ErrorCode::internal, file + " is not beside .metadata in " + save.directory);
    }
    return file.substr(directory.size());
}

class ItemVisits {
  public:
    ItemVisits(std::string file, const std::function<void(const DcpItem&)>& visit)
        : file_(std::move(file)), visit_(visit) {}

    void archive(const std::string& key, const TorchPickle& pickle,
                 std::optional<std::uint32_t> tensor = {}) {
        const Archive archive(kArchive, pickle);
        visit({key, next(archive.size()), tensor, &archive, nullptr});
    }
    void bytes(const std::string& key, const std::string& bytes) {
        visit({key, next(bytes.size()), {}, nullptr, &bytes});
    }

  private:
    DcpPlace next(Bytes length) { return {file_, end_, length}; }
    void visit(const DcpItem& item) {
        end_ = checked_add_bytes(end_, item.place.length, "an output file");
        visit_(item);
    }

    std::string file_;
    const std::function<void(const DcpItem&)>& visit_;
    Bytes end_ = 0;
};

void visit_objects(const TrainingSave& save, ItemVisits& visits) {
    for (const auto& [key, value] : save.objects) {
        TorchPickle pickle;
        pickle.pickle.op(PickleOp::empty_list);
        put_value(pickle.pickle, value);
        pickle.pickle.op(PickleOp::append);
        visits.archive(key, pickle);
    }
    for (const auto& [key, value] : save.bare_objects) {
        TorchPickle pickle;
        put_value(pickle.pickle, value);
        visits.archive(key, pickle);
    }
    for (const auto& [key, bytes] : save.archives) {
        visits.bytes(key, bytes);
    }
}

}  // namespace

void each_item(const TrainingSave& save, const TorchRankFile& file, const OutputTensors& tensors,
               const std::function<void(const DcpItem&)>& visit) {
    ItemVisits visits(relative_name(save, file.name), visit);
    if (file.rank == 0) {
        visit_objects(save, visits);
    }
    for (const std::uint32_t i : file.tensors) {
        TorchPickle pickle;
        pickle.add_tensor(tensors[i].dtype, tensors[i].shape, {tensors[i].bytes(), i});
        visits.archive(key_of(save.tensors[i]), pickle, i);
    }
}

std::string plain_archive(const std::string& file, const PlainValue& value) {
    TorchPickle pickle;
    put_value(pickle.pickle, value);
    FrameBytes bytes;
    Archive(archive_name(file), pickle).put_frame(0, bytes);
    const Frame frame = std::move(bytes).finish();
    const auto text = frame.parts.front().bytes;  // without tensors it is one part
    return {reinterpret_cast<const char*>(text.data()), text.size()};
}

void add_to_metadata(const TrainingSave& save, const DcpItem& item, const OutputTensors& tensors,
                     DcpContent& content) {
    if (!item.tensor) {
        content.objects[item.key] = item.place;
        if (const auto path = save.object_paths.find(item.key); path != save.object_paths.end()) {
            content.paths[item.key] = path->second;
        }
        return;
    }
    const OutputTensor& tensor = tensors[*item.tensor];
    const TrainingTensor& stored = save.tensors[*item.tensor];
    DcpStoredTensor& whole = content.tensors[item.key];
    const bool is_new = whole.chunks.empty();
    if (!is_new && (whole.dtype != tensor.dtype || whole.shape != stored.whole)) {
        throw Error(ErrorCode::internal, "chunks of " + item.key + " differ in dtype or shape");
    }
    whole.dtype = tensor.dtype;
    whole.shape = stored.whole;
    whole.chunks.push_back({stored.offsets, tensor.shape, item.place});
    if (is_new && stored.path.size() > 1) {
        content.paths[item.key] = stored.path;
    }
}

}  // namespace shardweld::outputs::torch
