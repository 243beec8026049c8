#include "wanted.hpp"

#include "training_form.hpp"

namespace shardweld::app {

plan::Wanted wanted_of(const PreparedModel& prepared) {
    plan::Wanted wanted{prepared.choice.dtype, {}, prepared.choice.has_parts, prepared.kept};
    if (prepared.training != nullptr) {
        wanted.pieces = prepared.training->pieces();
        wanted.passing = prepared.training->passing();
        wanted.has_names_for_all = prepared.training->has_names_for_all();
        if (prepared.training->like() != nullptr) {
            wanted.unplaced_hint = kOtherTemplate;
        }
    }
    return wanted;
}

}  // namespace shardweld::app
