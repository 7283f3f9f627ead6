; No slot of a node is lost, or held twice, with any number of blocks and slots.
;
; Stated: the invariant below holds of a new node, and every step keeps it. Blocks and slots are of
; sorts without a size, so that the proof is about any number of them, and a block holds any number
; of slots.
;
; Conclusion: by the invariant, every slot is in exactly one of four sets: free, credited, held by a
; block in transit, held by a cached block (the last check before the faults). The sizes of sets
; that share nothing and cover a finite set add up to its size. So
;     slots in transit + slots credited + slots cached = all slots - free slots <= all slots,
; where `NodeConfig::slots` is the number of all slots.
;
; Each check asks for a counterexample, and its name says the answer: `unsat` means that there is
; none, which proves the statement. `sat` is the answer where one has to exist: the premises of each
; step can be met, so that no proof is about nothing; and each fault breaks the invariant.
;
; The steps are the methods of `Memory`, and a chain is any set of slots that is not empty:
;
;   take        a block that is not in the table gets free slots, and is in transit
;   arrive      a block in transit is cached
;   give_up     a block in transit has failed, and its slots are free
;   reclaim     the slots of a cached block are free
;   credit      free slots are promised to an upstream, for blocks that it pushes
;   push        a block that is not in the table comes into credited slots, and is cached
;   end_credit  credited slots are free again
;
; `Memory` counts the credited slots, and does not say which of those in the pool they are. Any
; choice is as good: one may be made anew at any time (the step `choose`), before a chain is taken.
;
; Not stated here: that chains and the list of free slots are linked as the sets say, which the
; tests of `SlotPool` look at; and numbers of slots, which are in `budgets.smt2`.

(declare-sort Block 0)
(declare-sort Slot 0)
(declare-datatypes ((State 0)) (((empty) (in_transit) (cached))))
(declare-datatypes ((Moment 0)) (((before) (after))))

(declare-fun state (Moment Block) State)
(declare-fun holds (Moment Block Slot) Bool)
(declare-fun free (Moment Slot) Bool)
(declare-fun credited (Moment Slot) Bool)

; The block and the slots of a step.
(declare-const block Block)
(declare-fun chain (Slot) Bool)

; The invariant.

(define-fun no_slot_has_two_holders ((moment Moment)) Bool
  (forall ((slot Slot))
    (and
      (not (and (free moment slot) (credited moment slot)))
      (forall ((one Block))
        (=> (holds moment one slot) (not (or (free moment slot) (credited moment slot)))))
      (forall ((one Block) (other Block))
        (=> (and (holds moment one slot) (holds moment other slot)) (= one other))))))

(define-fun no_slot_is_lost ((moment Moment)) Bool
  (forall ((slot Slot))
    (or
      (free moment slot)
      (credited moment slot)
      (exists ((holder Block)) (holds moment holder slot)))))

(define-fun empty_blocks_alone_hold_none ((moment Moment)) Bool
  (forall ((any Block))
    (= (= (state moment any) empty) (forall ((slot Slot)) (not (holds moment any slot))))))

(define-fun invariant ((moment Moment)) Bool
  (and
    (no_slot_has_two_holders moment)
    (no_slot_is_lost moment)
    (empty_blocks_alone_hold_none moment)))

; The parts of steps.

(define-fun chain_has_slots () Bool (exists ((slot Slot)) (chain slot)))

(define-fun chain_is_the_blocks () Bool
  (forall ((slot Slot)) (= (chain slot) (holds before block slot))))

(define-fun chain_is_free () Bool (forall ((slot Slot)) (=> (chain slot) (free before slot))))

(define-fun chain_is_credited () Bool (forall ((slot Slot)) (=> (chain slot) (credited before slot))))

(define-fun block_becomes ((from State) (to State)) Bool
  (and (= (state before block) from) (= (state after block) to)))

(define-fun block_holds_chain () Bool (forall ((slot Slot)) (= (holds after block slot) (chain slot))))

(define-fun block_holds_none () Bool (forall ((slot Slot)) (not (holds after block slot))))

(define-fun block_holds_the_same () Bool
  (forall ((slot Slot)) (= (holds after block slot) (holds before block slot))))

(define-fun others_stay () Bool
  (forall ((other Block))
    (=> (distinct other block)
      (and
        (= (state after other) (state before other))
        (forall ((slot Slot)) (= (holds after other slot) (holds before other slot)))))))

(define-fun blocks_stay () Bool
  (and (= (state after block) (state before block)) block_holds_the_same others_stay))

(define-fun free_stay () Bool (forall ((slot Slot)) (= (free after slot) (free before slot))))

(define-fun free_lose_chain () Bool
  (forall ((slot Slot)) (= (free after slot) (and (free before slot) (not (chain slot))))))

(define-fun free_gain_chain () Bool
  (forall ((slot Slot)) (= (free after slot) (or (free before slot) (chain slot)))))

(define-fun credited_stay () Bool
  (forall ((slot Slot)) (= (credited after slot) (credited before slot))))

(define-fun credited_lose_chain () Bool
  (forall ((slot Slot)) (= (credited after slot) (and (credited before slot) (not (chain slot))))))

(define-fun credited_gain_chain () Bool
  (forall ((slot Slot)) (= (credited after slot) (or (credited before slot) (chain slot)))))

; A new node.

(push)
(assert (forall ((slot Slot)) (and (free before slot) (not (credited before slot)))))
(assert (forall ((any Block)) (= (state before any) empty)))
(assert (forall ((any Block) (slot Slot)) (not (holds before any slot))))
(echo "there is a new node: sat")
(check-sat)
(assert (not (invariant before)))
(echo "a new node has the invariant: unsat")
(check-sat)
(pop)

; The steps.

(push)
(assert (invariant before))
(assert (and chain_has_slots chain_is_free))
(assert (and (block_becomes empty in_transit) block_holds_chain others_stay))
(assert (and free_lose_chain credited_stay))
(echo "take can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "take keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert (and (block_becomes in_transit cached) block_holds_the_same others_stay))
(assert (and free_stay credited_stay))
(echo "arrive can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "arrive keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert chain_is_the_blocks)
(assert (and (block_becomes in_transit empty) block_holds_none others_stay))
(assert (and free_gain_chain credited_stay))
(echo "give_up can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "give_up keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert chain_is_the_blocks)
(assert (and (block_becomes cached empty) block_holds_none others_stay))
(assert (and free_gain_chain credited_stay))
(echo "reclaim can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "reclaim keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert (and chain_has_slots chain_is_free))
(assert blocks_stay)
(assert (and free_lose_chain credited_gain_chain))
(echo "credit can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "credit keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert (and chain_has_slots chain_is_credited))
(assert (and (block_becomes empty cached) block_holds_chain others_stay))
(assert (and free_stay credited_lose_chain))
(echo "push can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "push keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert (and chain_has_slots chain_is_credited))
(assert blocks_stay)
(assert (and free_gain_chain credited_lose_chain))
(echo "end_credit can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "end_credit keeps the invariant: unsat")
(check-sat)
(pop)

(push)
(assert (invariant before))
(assert blocks_stay)
(assert
  (forall ((slot Slot))
    (and
      (= (or (free after slot) (credited after slot)) (or (free before slot) (credited before slot)))
      (not (and (free after slot) (credited after slot))))))
(assert (exists ((slot Slot)) (and (free before slot) (credited after slot))))
(echo "choose can be: sat")
(check-sat)
(assert (not (invariant after)))
(echo "choose keeps the invariant: unsat")
(check-sat)
(pop)

; The conclusion.

(define-fun held_by_one_that_is ((wanted State) (slot Slot)) Bool
  (exists ((holder Block)) (and (= (state before holder) wanted) (holds before holder slot))))

(push)
(assert (invariant before))
(declare-const any Slot)
(assert
  (not
    (or
      (and (free before any) (not (credited before any))
        (not (held_by_one_that_is in_transit any)) (not (held_by_one_that_is cached any)))
      (and (not (free before any)) (credited before any)
        (not (held_by_one_that_is in_transit any)) (not (held_by_one_that_is cached any)))
      (and (not (free before any)) (not (credited before any))
        (held_by_one_that_is in_transit any) (not (held_by_one_that_is cached any)))
      (and (not (free before any)) (not (credited before any))
        (not (held_by_one_that_is in_transit any)) (held_by_one_that_is cached any)))))
(echo "every slot is in exactly one of four sets: unsat")
(check-sat)
(pop)

; Faults, which the invariant has to exclude.

(push)
(assert (and (invariant before) (not (invariant after))))
(assert chain_has_slots)
(assert (and (block_becomes empty in_transit) block_holds_chain others_stay))
(assert (and free_lose_chain credited_stay))
(echo "take of slots that are not free is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert (not chain_has_slots))
(assert (and (block_becomes empty in_transit) block_holds_chain others_stay))
(assert (and free_lose_chain credited_stay))
(echo "take of no slots (Mutation::TransitNotCounted) is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert (and chain_has_slots chain_is_free))
(assert (and (block_becomes in_transit in_transit) block_holds_chain others_stay))
(assert (and free_lose_chain credited_stay))
(echo "a second take for a block in transit is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert (and (block_becomes empty cached) block_holds_the_same others_stay))
(assert (and free_stay credited_stay))
(echo "arrival of a block that was given up is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert (and (block_becomes in_transit empty) block_holds_none others_stay))
(assert (and free_stay credited_stay))
(echo "failure that forgets the slots (Mutation::FailureLeaks) is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert chain_is_the_blocks)
(assert (and (block_becomes cached empty) block_holds_the_same others_stay))
(assert (and free_gain_chain credited_stay))
(echo "reclaim of slots that the block keeps is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert chain_has_slots)
(assert (and (block_becomes empty cached) block_holds_chain others_stay))
(assert (and free_stay credited_lose_chain))
(echo "push without a credit is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert (and chain_has_slots chain_is_credited))
(assert (and (block_becomes empty cached) block_holds_chain others_stay))
(assert (and free_stay credited_stay))
(echo "push that leaves the credit in place is found: sat")
(check-sat)
(pop)

(push)
(assert (and (invariant before) (not (invariant after))))
(assert chain_has_slots)
(assert blocks_stay)
(assert (and free_gain_chain credited_lose_chain))
(echo "end of a credit that was used is found: sat")
(check-sat)
(pop)
