// The optimizer in torch DCP checkpoints, as torch's get_state_dict names its parts: by parameters.
// Source: torch 2.15 torch/distributed/checkpoint/state_dict.py (_get_optim_state_dict,
// _flatten_optim_state_dict).
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "formats/catalogue_words.hpp"
#include "formats/containers/dcp_metadata.hpp"
#include "formats/format.hpp"
#include "formats/shared/optimizer_claims.hpp"
#include "formats/shared/settings.hpp"

namespace shardweld::formats::dcp {

/// The optimizer's part of one index. Until select_model, states' tensors have the names of their
/// parameters within the model's dictionary, below the prefix that was asked for.
class OptimizerReader {
  public:
    /// Nothing is taken unless the location asks for a state. All must outlive it; `placed` as of
    /// tensor_as_stored.
    OptimizerReader(const Location& location, const DcpMetadata& metadata,
                    std::vector<std::string>& placed)
        : location_(location), metadata_(metadata), placed_(placed) {}

    /// Takes a tensor that is a state, a step or an option, by its path through the dictionaries;
    /// whether it is a state that is asked for. Error(unsupported) for states of other optimizers
    /// than Adam, and for parameters that are numbered.
    bool take_tensor(const DcpTensor& tensor, std::string_view path);
    /// Takes an object that is an option, a setting of the scheduler, or stands where a state is
    /// expected.
    void take_object(const DcpObject& object, std::string_view path);

    /// All that was taken. Error as by StepClaims and, for parameters with moments and no step
    /// where others have one; Error(not_found) where a file with settings is not here, too;
    /// Error(unsupported) for a state that is an object.
    Optimizer finish();

  private:
    struct Setting {
        std::uint32_t file = 0;
        Bytes offset = 0;
        Bytes length = 0;
        std::string group;  // number of a parameter group, or name of a parameter; "" of no group
        std::string option;
        std::optional<std::string> owner = {};  // of a step or another state: whose it is
        std::string stored_as = {};             // of a tensor: its name in a container
    };
    void read(const std::string& file, const std::vector<const Setting*>& settings);
    void put_tensor(const Setting& setting, const std::map<std::string, StoredTensor>& stored,
                    const io::InputFile& input);
    void put_state(const Setting& setting, const PickleValue& value, const ScalarReader& scalars);
    void put_setting(const Setting& setting, const PickleValue& value, const ScalarReader& scalars);
    void require_steps() const;
    void add_groups();

    const Location& location_;
    const DcpMetadata& metadata_;
    std::vector<std::string>& placed_;
    Optimizer out_;
    std::vector<Setting> settings_;
    std::size_t n_setting_values_ = 0;
    std::map<std::string, Settings> numbered_;  // groups, by their numbers
    std::map<std::string, std::vector<std::string>> members_;
    std::map<std::string, Settings> named_;  // options of single parameters
    StepClaims steps_;
    std::set<std::string> stepped_;  // parameters that state their step
};

}  // namespace shardweld::formats::dcp
