"""Training: epochs, targets, checkpoints."""

from program import PLAIN, ProgramTest

TRAIN = ["train", "--model", "mlp", "--device", "cpu", "--data", "made", "--batch-size", "20", PLAIN]


class Train(ProgramTest):
    def setUp(self):
        super().setUp()
        self.expect(0, "data", "generate", "made", "--records", "40", "--test-records", "40", "--quiet")

    def test_epochs_are_evaluated_and_written(self):
        done = self.expect(0, *TRAIN, "--epochs", "2", "--gpus", "2", "--out", "out")
        result = self.result()
        self.assertTrue(result["complete"])
        run = result["runs"][0]
        self.assertEqual([evaluation["epoch"] for evaluation in run["evaluations"]], [1, 2])
        self.assertEqual(len(run["losses"]), 2 * 5)
        self.assertIn("epoch 2/2", done.stderr)

    def test_a_missed_target_is_a_failed_run(self):
        self.expect_error_tail(["target accuracy 99.9 % missed", "--epochs"], "--target-accuracy", "99.9%", "--epochs", "1")
        self.assertTrue(self.result()["complete"])

    def expect_error_tail(self, words, *arguments):
        done = self.expect(5, *TRAIN, "--quiet", "--out", "out", *arguments)
        for word in words:
            self.assertIn(word, done.stderr)

    def test_a_reached_target_ends_training(self):
        self.expect(0, *TRAIN, "--target-accuracy", "1%", "--epochs", "50", "--out", "out")
        self.assertLess(len(self.result()["runs"][0]["evaluations"]), 50)

    def test_a_checkpoint_resumes_exactly(self):
        self.expect(0, *TRAIN, "--epochs", "2", "--out", "whole")
        self.expect(0, *TRAIN, "--epochs", "1", "--out", "half", "--checkpoint", "c")
        self.expect(0, *TRAIN, "--epochs", "2", "--out", "rest", "--resume", "c")
        whole, rest = self.result("whole")["runs"][0], self.result("rest")["runs"][0]
        self.assertEqual(whole["weights_hash"], rest["weights_hash"])
        self.assertEqual(whole["losses"], rest["losses"])  # the curve goes on

    def test_a_checkpoint_of_another_run_is_refused(self):
        self.expect(0, *TRAIN, "--epochs", "1", "--out", "out", "--checkpoint", "c")
        self.expect_error(4, ["c", "seed"], *TRAIN, "--epochs", "2", "--out", "out", "--resume", "c", "--seed", "5")
