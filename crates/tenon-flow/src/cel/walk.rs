//! How deep a tree is, found without recursion: a chain of a thousand additions is a thousand levels deep.

use cel::common::ast::{EntryExpr, Expr, IdedExpr};

pub(super) fn depth(tree: &IdedExpr) -> usize {
    let mut deepest = 0;
    let mut open = vec![(tree, 1)];
    while let Some((node, level)) = open.pop() {
        deepest = deepest.max(level);
        open.extend(children(node).into_iter().map(|child| (child, level + 1)));
    }
    deepest
}

/// The nodes directly below.
pub(super) fn children(node: &IdedExpr) -> Vec<&IdedExpr> {
    match &node.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::Comprehension(it) => {
            vec![&it.iter_range, &it.accu_init, &it.loop_cond, &it.loop_step, &it.result]
        }
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map.entries.iter().flat_map(|entry| entry_children(&entry.expr)).collect(),
        Expr::Struct(it) => it.entries.iter().flat_map(|entry| entry_children(&entry.expr)).collect(),
        Expr::Select(select) => vec![&select.operand],
    }
}

fn entry_children(entry: &EntryExpr) -> Vec<&IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&field.value],
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
    }
}

pub(super) fn children_mut(node: &mut IdedExpr) -> Vec<&mut IdedExpr> {
    match &mut node.expr {
        Expr::Unspecified | Expr::Ident(_) | Expr::Literal(_) => Vec::new(),
        Expr::Call(call) => call.target.as_deref_mut().into_iter().chain(&mut call.args).collect(),
        Expr::Comprehension(it) => {
            let it = it.as_mut();
            vec![&mut it.iter_range, &mut it.accu_init, &mut it.loop_cond, &mut it.loop_step, &mut it.result]
        }
        Expr::List(list) => list.elements.iter_mut().collect(),
        Expr::Map(map) => {
            map.entries.iter_mut().flat_map(|entry| entry_children_mut(&mut entry.expr)).collect()
        }
        Expr::Struct(it) => {
            it.entries.iter_mut().flat_map(|entry| entry_children_mut(&mut entry.expr)).collect()
        }
        Expr::Select(select) => vec![&mut select.operand],
    }
}

fn entry_children_mut(entry: &mut EntryExpr) -> Vec<&mut IdedExpr> {
    match entry {
        EntryExpr::StructField(field) => vec![&mut field.value],
        EntryExpr::MapEntry(entry) => vec![&mut entry.key, &mut entry.value],
    }
}
