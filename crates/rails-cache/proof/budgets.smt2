; No budget has more slots than it may have, and all together have those that are not free, with any
; number of budgets.
;
; Stated, of `Share::used`, the counters in `Used` and `Memory::free`:
;
; 1. The invariant below holds of a new node, and every step keeps it: every budget has at most its
;    `max`, and the slots of all budgets and the free ones are all slots. So
;        slots in transit + slots credited + slots cached = all slots - free slots <= all slots.
; 2. A budget from which another one takes slots keeps its `min`.
; 3. While a block lacks slots of the node, some budget can give those of the largest block and keep
;    its `min`.
;
; A budget here is a `Share` of the code: one budget, or several with the same limits, whose slots
; count together.
;
; Each check asks for a counterexample, and its name says the answer: `unsat` means that there is
; none, which proves the statement. `sat` is the answer where one has to exist: the premises of each
; step can be met, so that no proof is about nothing; and each fault breaks what is stated.
;
; Budgets are numbered from 0. Statements about sums over all of them are proved by
; induction over the number of budgets summed: for none, and for one more.
;
; The steps are the methods of `Memory`, each of `slots` slots that count against `budget`:
;
;   declare     one more budget, of which no slot is used
;   take        free slots are in transit, if `room` finds room
;   arrive      slots in transit are cached
;   give_up     slots in transit are free
;   reclaim     cached slots are free; for the sake of another budget only if `Share::can_give`
;   credit      free slots are credited, if `room` finds room
;   push        credited slots are cached
;   end_credit  credited slots are free
;
; Slots that leave a state have been counted since they came into it, so that its counter is not
; less: a premise of such steps. Numbers are integers without a bound, while those of the code are
; `u32`. Blocks that go because no use of them is expected, or because their partition is idle, go
; for no budget's sake, and 2 does not protect them.

(declare-datatypes ((Moment 0)) (((before) (after))))

; The node: its slots, and those of the largest block.
(declare-const total Int)
(declare-const max_block_slots Int)
(declare-fun free (Moment) Int)

; The budgets.
(declare-fun budgets (Moment) Int)
(declare-fun min (Int) Int)
(declare-fun max (Int) Int)
(declare-fun in_transit (Moment Int) Int)
(declare-fun cached (Moment Int) Int)
(declare-fun credited (Moment Int) Int)

(define-fun used ((moment Moment) (any Int)) Int
  (+ (in_transit moment any) (cached moment any) (credited moment any)))

; The slots used by the budgets whose number is less.
(declare-fun used_below (Moment Int) Int)

; The slots and the budget of a step.
(declare-const slots Int)
(declare-const budget Int)

(assert (<= 1 max_block_slots total))
(assert (<= 1 slots))

; The invariant.

(define-fun no_budget_exceeds_its_max ((moment Moment)) Bool
  (forall ((any Int))
    (=> (and (<= 0 any) (< any (budgets moment)))
      (and
        (<= 0 (in_transit moment any))
        (<= 0 (cached moment any))
        (<= 0 (credited moment any))
        (<= (used moment any) (max any))))))

(define-fun all_slots_are_counted ((moment Moment)) Bool
  (and (<= 0 (free moment)) (= (+ (used_below moment (budgets moment)) (free moment)) total)))

(define-fun invariant ((moment Moment)) Bool
  (and (<= 0 (budgets moment)) (no_budget_exceeds_its_max moment) (all_slots_are_counted moment)))

; Sums over budgets: what they are for none, and for one more.

(define-fun none_is_used_below_zero ((moment Moment)) Bool (= (used_below moment 0) 0))

(define-fun one_more_is_used ((moment Moment) (any Int)) Bool
  (= (used_below moment (+ any 1)) (+ (used_below moment any) (used moment any))))

; The parts of steps.

(define-fun budget_is_there () Bool
  (and (<= 0 budget) (< budget (budgets before)) (= (budgets after) (budgets before))))

(define-fun others_stay () Bool
  (forall ((other Int))
    (=> (distinct other budget)
      (and
        (= (in_transit after other) (in_transit before other))
        (= (cached after other) (cached before other))
        (= (credited after other) (credited before other))))))

(define-fun budget_changes ((by_in_transit Int) (by_cached Int) (by_credited Int)) Bool
  (and
    (= (in_transit after budget) (+ (in_transit before budget) by_in_transit))
    (= (cached after budget) (+ (cached before budget) by_cached))
    (= (credited after budget) (+ (credited before budget) by_credited))
    others_stay))

(define-fun free_change ((by Int)) Bool (= (free after) (+ (free before) by)))

(define-fun room_in_budget () Bool (<= (+ (used before budget) slots) (max budget)))

(define-fun room_in_node () Bool (<= slots (free before)))

(define-fun block_lacks_slots () Bool (and (not room_in_node) (<= slots max_block_slots)))

(define-fun can_give ((moment Moment) (any Int) (wanted Int)) Bool
  (>= (used moment any) (+ (min any) wanted)))

; A step changes a sum over budgets as it changes its budget, if the sum has it.

(define-fun sum_follows_budget ((end Int)) Bool
  (= (used_below after end)
    (+ (used_below before end)
      (ite (< budget end) (- (used after budget) (used before budget)) 0))))

(push)
(assert (and (<= 0 budget) others_stay))
(assert (and (none_is_used_below_zero before) (none_is_used_below_zero after)))
(assert (not (sum_follows_budget 0)))
(echo "the sum over no budget follows a step: unsat")
(check-sat)
(pop)

(push)
(declare-const any Int)
(assert (and (<= 0 budget) (<= 0 any) others_stay))
(assert (and (one_more_is_used before any) (one_more_is_used after any)))
(assert (sum_follows_budget any))
(assert (not (sum_follows_budget (+ any 1))))
(echo "the sum over one more budget follows a step: unsat")
(check-sat)
(pop)

; A new node.

(push)
(assert (= (budgets before) 0))
(assert (= (free before) total))
(assert (none_is_used_below_zero before))
(echo "there is a new node: sat")
(check-sat)
(assert (not (invariant before)))
(echo "a new node has the invariant: unsat")
(check-sat)
(pop)

; The steps. The sum follows each, as proved.

(push)
(assert (invariant before))
(assert (= (budgets before) budget))
(assert (= (budgets after) (+ budget 1)))
(assert (<= 0 (min budget) (max budget)))
(assert (and (= (in_transit after budget) 0) (= (cached after budget) 0)))
(assert (and (= (credited after budget) 0) others_stay))
(assert (and (sum_follows_budget budget) (one_more_is_used after budget)))
(assert (free_change 0))
(echo "declare can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "declare keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and room_in_budget room_in_node))
(assert (and (budget_changes slots 0 0) (free_change (- slots))))
(echo "take can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "take keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (<= slots (in_transit before budget)))
(assert (and (budget_changes (- slots) slots 0) (free_change 0)))
(echo "arrive can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "arrive keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (<= slots (in_transit before budget)))
(assert (and (budget_changes (- slots) 0 0) (free_change slots)))
(echo "give_up can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "give_up keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (<= slots (cached before budget)))
(assert (and (budget_changes 0 (- slots) 0) (free_change slots)))
(echo "reclaim can be: sat")
(check-sat)
(push)
(assert (not (invariant after)))
(echo "reclaim keeps the invariant: unsat")
(check-sat)
(pop)
(assert (can_give before budget slots))
(echo "reclaim for another budget can be: sat")
(check-sat)
(assert (< (used after budget) (min budget)))
(echo "reclaim for another budget keeps the min: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and room_in_budget room_in_node))
(assert (and (budget_changes 0 0 slots) (free_change (- slots))))
(echo "credit can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "credit keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (<= slots (credited before budget)))
(assert (and (budget_changes 0 slots (- slots)) (free_change 0)))
(echo "push can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "push keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (<= slots (credited before budget)))
(assert (and (budget_changes 0 0 (- slots)) (free_change slots)))
(echo "end_credit can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "end_credit keeps the invariant: unsat")
(check-sat)
(pop)

; Some budget can give a block when one lacks slots of the node. `Memory::declare` sees to it that
;     mins + budgets * (max_block_slots - 1) + max_block_slots <= total.
; The first two terms are what all budgets have if none of them can give: each at most
; `max_block_slots - 1` beyond its `min`.

(declare-fun not_given_below (Int) Int)

(define-fun no_more_is_used_than_not_given ((end Int)) Bool
  (<= (used_below before end) (not_given_below end)))

(push)
(assert (and (none_is_used_below_zero before) (= (not_given_below 0) 0)))
(assert (not (no_more_is_used_than_not_given 0)))
(echo "no budget keeps no more than it need not give: unsat")
(check-sat)
(pop)

(push)
(declare-const any Int)
(assert (one_more_is_used before any))
(assert
  (= (not_given_below (+ any 1)) (+ (not_given_below any) (min any) (- max_block_slots 1))))
(assert (not (can_give before any max_block_slots)))
(assert (no_more_is_used_than_not_given any))
(assert (not (no_more_is_used_than_not_given (+ any 1))))
(echo "one more budget that cannot give keeps no more: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert block_lacks_slots)
(assert (<= (+ (not_given_below (budgets before)) max_block_slots) total))
(assert (no_more_is_used_than_not_given (budgets before)))
(echo "no block lacks slots while no budget can give: unsat")
(check-sat)
(pop)

; Faults, which have to be found.

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (not (invariant after)) room_in_node))
(assert (and (budget_changes slots 0 0) (free_change (- slots))))
(echo "take without room in the budget is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (not (invariant after)) room_in_budget))
(assert (<= (+ (cached before budget) slots) total))
(assert (and (budget_changes slots 0 0) (free_change (- slots))))
(echo "take that counts cached slots alone is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (not (invariant after)) (<= slots (in_transit before budget))))
(assert (and (budget_changes 0 slots 0) (free_change 0)))
(echo "arrival that is counted twice is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (not (invariant after)) (<= slots (in_transit before budget))))
(assert (and (budget_changes (- slots) 0 0) (free_change 0)))
(echo "failure that frees no slots is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (not (invariant after)) room_in_budget room_in_node))
(assert (and (budget_changes 0 0 slots) (free_change 0)))
(echo "credit of slots that others may take is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (not (invariant after)) room_in_budget))
(assert (and (budget_changes 0 slots 0) (free_change 0)))
(echo "push without a credit is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) budget_is_there (sum_follows_budget (budgets before))))
(assert (and (<= slots (cached before budget)) (>= (used before budget) (min budget))))
(assert (and (budget_changes 0 (- slots) 0) (free_change slots)))
(assert (< (used after budget) (min budget)))
(echo "reclaim at the min (Mutation::MinNotKept) is found: sat")
(check-sat)
(pop)

; Two budgets, whose reserve is one slot too small.
(push)
(assert (and (invariant before) (= (budgets before) 2)))
(assert (and (none_is_used_below_zero before) (one_more_is_used before 0) (one_more_is_used before 1)))
(assert block_lacks_slots)
(assert
  (= (+ (min 0) (min 1) (* 2 (- max_block_slots 1)) max_block_slots) (+ total 1)))
(assert (and (<= 0 (min 0) (max 0)) (<= 0 (min 1) (max 1))))
(assert (not (can_give before 0 max_block_slots)))
(assert (not (can_give before 1 max_block_slots)))
(echo "a reserve that is a slot too small is found: sat")
(check-sat)
(pop)
