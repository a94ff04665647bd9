"""Defects as they were found, by use and by attack; those that belong elsewhere are there."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from parafair import FairCP, SensitiveFeatures, TensorData, audit, frontier
from parafair.records import rebuild

GROUPS = np.array(["a", "b"])[np.arange(12) % 2]
TENSOR = np.random.default_rng(0).random((12, 4, 3))


def labeled(prefix, modes=("who", "what", "when")):
    labels = [[f"{prefix}{i:02}" for i in range(12)], None, None]
    return TensorData.from_array(TENSOR, modes=modes, labels=labels)


@pytest.mark.parametrize("other", [labeled("q"), labeled("p", ("person", "what", "when"))])
def test_a_frontier_is_not_continued_with_other_people_or_modes(tmp_path, other):
    def run(data):
        model = FairCP(1, max_iter=1, tol=0.0)
        settings = {"strengths": [1.0], "audits": None, "limit": False, "out": tmp_path / "curve"}
        return frontier(model, data, sensitive_features=GROUPS, **settings)

    run(labeled("p"))
    with pytest.raises(ValueError, match="holds results with other settings"):
        run(other)


def test_masked_sensitive_features_are_missing():
    masked = np.ma.array(GROUPS, mask=np.arange(12) % 5 == 3)
    with pytest.raises(ValueError, match=r"has 2 missing values \(rows 3, 8\); fill them"):
        SensitiveFeatures.of(masked)


def test_rows_with_more_fields_than_the_header_are_refused(tmp_path):
    (tmp_path / "x.csv").write_text("who,what,x\na,b,1,9\nc,d,2,8\n")
    with pytest.raises(ValueError, match="line 2 has 4 fields, but the header has 3"):
        TensorData.from_table(tmp_path / "x.csv", modes=["who", "what"], value="x")


@pytest.mark.parametrize("name", ["dataclass", "lru_cache", "ABC", "eval"])
def test_a_record_calls_no_class_that_was_not_offered(name):
    with pytest.raises(ValueError, match=f"the record names the class '{name}', which is not"):
        rebuild({"name": name}, {"FairCP": FairCP})


def test_numbers_for_a_model_with_labels_are_not_taken_for_positions():
    table = pd.DataFrame({"who": [10, 10, 11], "what": [5, 6, 5], "x": [1.0, 2, 3]})
    data = TensorData.from_table(table, modes=["who", "what"], value="x")
    model = FairCP(1, method="none", max_iter=1, tol=0.0, ridge=1.0).fit(data)
    with pytest.raises(ValueError, match="its numbers could be labels or positions"):
        model.predict(np.array([[10, 5]]))
    assert model.predict(data).shape == (3,)


def test_the_support_vector_machine_leaves_the_random_state_alone():
    before = np.random.get_state()[1].tolist()
    audit(TENSOR[:, :, 0], sensitive_features=GROUPS, attackers=["svm"], permutations=1)
    assert np.random.get_state()[1].tolist() == before


def test_a_reversed_array_with_a_first_mode_of_one_is_read():
    assert TensorData.from_array(TENSOR[:1][::-1]).shape == (1, 4, 3)


# The defects that a campaign and a user with real ratings found in the first version, in their
# order, each with the tests that failed until it was mended.
FOUND = {
    "1 one far row blinds an audit": """
        test_one_person_far_away_blinds_nobody_and_is_named test_one_person_far_away_hides_nothing
        test_a_large_shift_leaves_what_can_still_be_read test_the_unit_of_a_number_changes_nothing
        test_no_distortion_blinds_the_audit""",
    "2 a repaired frontier cannot be read": "test_a_damaged_fit_is_made_again",
    "3 audits of few people crash": """
        test_few_people_are_audited_and_little_is_known test_folds_are_fewer_and_this_is_said
        test_fewer_people_than_neighbors_are_all_neighbors""",
    "4 files are replaced without --force": """
        test_a_report_replaces_files_only_if_asked test_nothing_is_replaced_without_being_asked_to
        test_results_of_an_audit_are_replaced_only_if_asked""",
    "5 a frontier resumes with other people": """
        test_a_frontier_is_not_continued_with_other_people_or_modes""",
    "6 labels are merged": """
        test_numbers_beyond_64_bits_are_refused test_a_table_does_not_wrap_unsigned_labels""",
    "7 a mask of features is ignored": """
        test_masked_sensitive_features_are_missing test_masked_values_are_missing""",
    "8 a row with more fields than the header loses a column": """
        test_rows_with_more_fields_than_the_header_are_refused
        test_a_row_longer_than_the_header_is_refused_with_its_line""",
    "9 a FROSTT file takes all memory or is damaged": """
        test_a_frostt_file_whose_sizes_exceed_memory_is_refused test_bad_frostt_files_are_refused
        test_a_damaged_packed_frostt_file_is_refused""",
    "10 damaged files load as something else": """
        test_damage_is_refused_or_makes_no_difference test_what_is_no_record_of_an_audit_is_refused
        test_saved_audits_are_read_again_and_damage_is_refused""",
    "11 a record calls any class": "test_a_record_calls_no_class_that_was_not_offered",
    "12 audits in threads leave a filter of warnings": """
        test_audits_in_threads_leave_the_filters_of_warnings_as_they_were
        test_no_code_that_may_run_in_threads_changes_the_filters_of_warnings""",
    "13 another default dtype breaks the audit": """
        test_results_do_not_depend_on_torch_defaults
        test_every_new_tensor_states_its_dtype_and_device""",
    "14 two modes share a file": "test_every_mode_has_a_table_of_its_own",
    "15 two processes save to one place": """
        test_of_two_that_create_the_same_folder_one_wins test_of_two_processes_one_wins
        test_of_two_that_replace_the_same_folder_one_wins""",
    "16 a kill hides the old run and leaves files": """
        test_a_run_that_was_being_replaced_comes_back test_a_run_that_was_being_replaced_can_be_read
        test_leftovers_of_killed_processes_are_removed
        test_what_is_killed_loses_nothing_and_can_be_repeated""",
    "17 a full disk leaves files, a read-only folder is found late": """
        test_a_full_disk_leaves_nothing_behind test_a_full_disk_is_found_before_the_work
        test_folders_that_cannot_be_written_to_are_refused_at_once
        test_what_cannot_be_written_is_refused_before_the_audit""",
    "18 labels reach the terminal and spreadsheets as they are": """
        test_labels_cannot_control_the_terminal test_labels_cannot_be_formulas_of_a_spreadsheet
        test_predictions_and_new_people_cannot_be_formulas_either""",
    "19 tracebacks": """
        test_a_device_without_memory_is_refused test_strange_headers_of_arrays_are_refused
        test_ctrl_c_while_importing_shows_no_traceback
        test_terminals_that_know_ascii_only_are_served""",
    "20 raw errors of plausible calls": """
        test_an_unknown_key_is_refused test_categories_of_pandas_are_text
        test_a_pyarrow_table_has_named_columns test_ragged_lists_are_refused
        test_a_generator_is_a_random_state test_arguments_of_a_wrong_type_are_refused
        test_what_cannot_be_compared_is_refused test_the_residual_of_zeros_is_undefined
        test_a_reversed_array_with_a_first_mode_of_one_is_read""",
    "21 a warning of torch, complex predictions, center='no'": """
        test_read_only_cells_give_no_warning test_complex_predictions_are_refused
        test_arguments_of_a_wrong_type_are_refused""",
    "22 the random state of NumPy is used": """
        test_the_support_vector_machine_leaves_the_random_state_alone
        test_the_global_random_state_is_not_used""",
    "23 the source distribution lacks files": """
        test_the_source_distribution_has_every_tracked_file""",
    "24 missing packages are found late": """
        test_missing_packages_are_named_before_the_fit
        test_what_cannot_be_written_is_refused_before_the_audit""",
    "25 strength='auto' tries neither small strengths nor the plain fit": """
        test_rough_fits_lead_to_chance_and_are_not_audited
        test_independent_features_keep_the_plain_fit
        test_leakages_are_compared_among_trials_that_all_attackers_have_audited""",
    "26 the penalty creates leakage on data with many zeros": """
        test_people_of_random_groups_stay_unrecognizable
        test_no_strength_makes_people_of_random_groups_recognizable""",
    "27 attackers below chance are ignored": """
        test_matched_pairs_leak test_leakage_of_an_attacker_who_is_always_wrong_is_everything""",
    "28 numbers have no side below chance": """
        test_matched_numbers_leak test_a_number_predicted_backwards_is_turned_around""",
    "29 transform writes the feature into the rows": """
        test_new_people_have_noise_of_the_same_size_that_is_their_own
        test_an_attacker_learns_nothing_of_the_features_that_new_people_are_given
        test_random_features_of_new_people_are_not_written_into_their_rows""",
    "30 the default ridge loses to the offsets": """
        test_the_default_never_loses_to_the_offsets_and_is_near_the_best
        test_a_model_that_cannot_beat_the_offsets_says_so""",
    "31 predict takes labels for positions": """
        test_numbers_for_a_model_with_labels_are_not_taken_for_positions""",
    "32 an audit forgets the columns of its run": "test_kinds_of_the_run_are_used_again",
    "33 features that are ids are accepted": """
        test_a_feature_that_almost_labels_the_people_is_refused_with_a_remedy""",
    "34 tune repeats a warning": "test_a_warning_of_many_fits_is_given_once_with_a_count",
    "35 data frames of rows lack the labels": """
        test_pandas_output_of_labeled_data_has_the_labels_of_the_people""",
    "36 predict does not take data": "test_data_is_predicted_at_its_cells",
    "37 tests in a file, and separators": """
        test_entries_of_a_file_are_predicted test_the_header_shows_the_separator""",
    "38 unknown labels come with a guess instead of the remedy": """
        test_unknown_labels_come_with_the_remedy""",
    "39 strength='auto' is silent": """
        test_trials_and_audits_are_shown_as_they_happen
        test_a_strength_found_by_audits_has_a_verdict""",
    "40 reprs are raw": """
        test_the_parts_of_a_fitted_model_have_short_reprs test_a_repr_is_one_short_line""",
    "41 the report hides what is below chance, and has neither AUC nor error": """
        test_attackers_off_chance_show_in_both_directions test_every_attacker_has_its_auc
        test_all_audited_points_are_shown_and_the_picked_one_is_selected
        test_a_long_mode_shows_its_largest_labels_by_name
        test_the_horizontal_axis_can_be_the_held_out_error
        test_a_small_difference_does_not_fill_the_plot""",
}


def test_every_defect_that_was_found_has_tests():
    written = Counter(
        name
        for file in Path(__file__).parent.rglob("test_*.py")
        for name in re.findall(r"def (test_\w+)\(", file.read_text(encoding="utf-8"))
    )
    assert [int(what.split()[0]) for what in FOUND] == list(range(1, 42))
    for what, names in FOUND.items():
        assert names.split(), what
        for name in names.split():
            assert written[name] == 1, f"{what}: {written[name]} tests are called {name}"
